// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metrics/string_match.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>
#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("string matches agree with RULER's") {
  for (const std::string_view metric : {"string_match_all", "string_match_part"}) {
    const auto score = metric == "string_match_all" ? string_match_all : string_match_part;
    for (const metric_case& c : metric_cases(metric)) {
      CAPTURE(c.prediction);
      if (c.value)
        CHECK(score(c.prediction, c.answers) == *c.value);  // both are the quotient of the same two whole numbers
      else
        CHECK_THROWS_AS(score(c.prediction, c.answers), error);
    }
  }
}

TEST_CASE("string matches, by hand") {
  CHECK(string_match_all("It is ABC and 12.", {"abc", "123"}) == 0.5);
  CHECK(string_match_part("It is ABC and 12.", {"abc", "123"}) == 1.0);
  CHECK(string_match_part("", {"abc", "123"}) == 0.0);
  CHECK(error_of([&] { string_match_all("x", {}); }) == at("answers"));
}

TEST_CASE("an exact match is the whole answer") {
  check_best("exact_match", [](const auto& p, const auto& a, const auto&) { return exact_match(p, a); });
  CHECK(exact_match(" a , b\n", "a , b") == 1.0);
  CHECK(exact_match("a , b , c", "a , b") == 0.0);
}
