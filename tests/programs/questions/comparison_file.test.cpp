// SPDX-License-Identifier: MIT
#include "questions/comparison_file.hpp"

#include <doctest/doctest.h>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune;
using namespace lazyprune::program;
using namespace lazyprune_test;

namespace {

recorded_comparison comparison(std::uint64_t ask) {
  return {ask,
          {.text = "t",
           .prompt_tokens = 5,
           .steps = {{true, 0.1, 1.0 / 3, 2e-17}, {false, 0, 1, 2}},
           .parted_at = 1,
           .rows = 0.7,
           .ttft_s = 1,
           .dense_ttft_s = 2},
          "2 threads, avx2"};
}

}  // namespace

TEST_CASE("comparisons read back exactly, and a resumed file goes on after the last whole line") {
  const temporary_folder folder;
  recorded_comparison equal = comparison(2);
  equal.value.parted_at.reset();
  {
    comparison_file file(folder / "c", false);
    file.add(comparison(~0ull));
    file.add(equal);
  }
  std::ofstream(folder / "c.unfinished", std::ios::app) << "{\"ask\": \"3";
  comparison_file file(folder / "c", true);
  REQUIRE(file.done().size() == 2);
  CHECK(file.done()[0].ask == ~0ull);
  CHECK(file.done()[0].value == comparison(1).value);
  CHECK(file.done()[0].timed_on == "2 threads, avx2");
  CHECK(file.done()[1].value == equal.value);
  file.commit();
  CHECK(read_text(folder / "c") == comparison(~0ull).line() + '\n' + equal.line() + '\n');
}

TEST_CASE("comparisons are the same if they differ in times and the name of the text alone") {
  recorded_comparison other = comparison(1);
  other.value.text = "./t";
  other.value.ttft_s = 3;
  other.value.dense_ttft_s = 4;
  other.timed_on = "1 thread, avx2";
  CHECK(other.same_but_times(comparison(1)));
  CHECK_FALSE(other.same_but_times(comparison(2)));
  other.value.steps[0].kl = 0.2;
  CHECK_FALSE(other.same_but_times(comparison(1)));
}

TEST_CASE("a line that is no comparison is an error that names its place") {
  const temporary_folder folder;
  const auto fault = [&](const std::string& from, const std::string& to) {
    std::string line = comparison(1).line();
    line.replace(line.find(from), from.size(), to);
    folder.write("c", line + '\n');
    return error_of([&] { comparison_file(folder / "c", true); });
  };
  const std::string place = (folder / "c").string() + ": line 1: ";
  CHECK(fault("[0,0.0,1.0,2.0]", "[0,0.0,1.0]") == at(place + "steps[1]", {"4 numbers"}));
  CHECK(fault("[[1,", "[[2,") == at(place + "steps[0][0]"));
  CHECK(fault("\"rows\":0.7", "\"rows\":null") == at(place + "rows"));
}
