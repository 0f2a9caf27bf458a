// SPDX-License-Identifier: MIT
#include <lazyprune/files/pruning_file.hpp>

#include <doctest/doctest.h>

#include <fault.hpp>
#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("a pruning file has stages and nothing else") {
  const temporary_folder folder;
  CHECK(pruning_file::read(folder.write("a.json", R"({"stages": "3:0.3,5:0.1"})")).stages == "3:0.3,5:0.1");
  const auto fault_of = [&](const char* text) {
    const std::filesystem::path file = folder.write("b.json", text);
    const fault found = error_of([&] { pruning_file::read(file); });
    return found;
  };
  const std::string file = (folder.path() / "b.json").string();
  CHECK(fault_of(R"({"stage": "3:0.3"})") == at(file + ": stage"));
  CHECK(fault_of("{}") == at(file));
  CHECK(fault_of(R"({"stages": 3})") == at(file + ": stages"));
  CHECK(error_of([&] { pruning_file::read(folder.path() / "none.json"); }) == at((folder.path() / "none.json").string()));
}
