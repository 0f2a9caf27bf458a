// SPDX-License-Identifier: MIT
#include <lazyprune/files/json_lines.hpp>

#include <doctest/doctest.h>

#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

std::uint64_t n_of(const json_value& object) { return object.at("n").whole_number(); }

}  // namespace

TEST_CASE("each line is a record; empty lines are skipped") {
  const temporary_folder folder;
  line_reader lines(folder.write("r.jsonl", "{\"n\": 1}\n\n \r\n{\"n\": 2}"));
  CHECK(read_json_lines<std::uint64_t>(lines, n_of) == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("bad lines are reported to a callback and skipped; without a callback, the first error is thrown") {
  const temporary_folder folder;
  const auto file = folder.write("r.jsonl", "{\"n\": 1}\n[\n{\"m\": 2}\n{\"n\": 3}\n");
  std::vector<std::string> told;
  line_reader lines(file), again(file);
  const auto tell = [&](const error& fault) { told.emplace_back(fault.what()); };
  CHECK(read_json_lines<std::uint64_t>(lines, n_of, tell) == std::vector<std::uint64_t>{1, 3});
  REQUIRE(told.size() == 2);
  CHECK(told[0].starts_with(file.string() + ": line 2: byte "));
  CHECK(told[1] == file.string() + ": line 3: expected the key \"n\", found none");
  CHECK_THROWS_WITH_AS(read_json_lines<std::uint64_t>(again, n_of), doctest::Contains(": line 2: byte "), error);
}
