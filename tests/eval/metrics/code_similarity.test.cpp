// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metrics/code_similarity.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>

using namespace lazyprune;

TEST_CASE("code similarity agrees with LongBench's") {
  check_best("code_sim", [](const auto& p, const auto& a, const auto&) { return code_similarity(p, a); });
}

TEST_CASE("the first line of code counts") {
  CHECK(code_similarity("\n\n```python\n# one\n  x = 1;  // two\nx = 1\ny = 2", "x = 1") == 1.0);
  CHECK(code_similarity("# none", "x") == 0.0);
  CHECK(code_similarity("# none", "") == 1.0);
}

TEST_CASE("scores are whole hundredths; a half is rounded to the even one") {
  CHECK(code_similarity("abcd", "abcf") == 0.75);          // 2 * 3 / 8
  CHECK(code_similarity("a", "abbbbbbbbbbbbbb") == 0.12);  // 2 / 16 = 0.125 gives 0.12, not 0.13
}
