// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metrics/classification.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>

using namespace lazyprune;

TEST_CASE("classification agrees with LongBench's") {
  check_best("classification", [](const auto& p, const auto& a, const auto& classes) { return classification_score(p, a, classes); });
}

TEST_CASE("classification scores computed by hand") {
  CHECK(classification_score("Food or Law", "Food", {"Food", "Law", "Sport"}) == 0.5);
  CHECK(classification_score("Law", "Food", {"Food", "Law"}) == 0.0);
  // LongBench removes "a" from [a, ab, abc]. Its loop continues at the next place, where abc now is. So ab stays.
  CHECK(classification_score("abc", "abc", {"a", "ab", "abc"}) == 0.5);
}
