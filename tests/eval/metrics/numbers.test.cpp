// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metrics/numbers.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>
#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("count and retrieval agree with LongBench's") {
  check_best("count", [](const auto& p, const auto& a, const auto&) { return count_score(p, a); });
  check_best("retrieval", [](const auto& p, const auto& a, const auto&) { return retrieval_score(p, a); });
  check_best("retrieval_zh", [](const auto& p, const auto& a, const auto&) { return retrieval_zh_score(p, a); });
}

TEST_CASE("the share of right numbers, computed by hand") {
  CHECK(count_score("7 of 7, not 17", "7") == doctest::Approx(2.0 / 3).epsilon(1e-15));
  CHECK(count_score("seven", "7") == 0.0);
  CHECK(retrieval_score("Paragraph 3", "Paragraph Paragraph 3") == 1.0);
  CHECK(retrieval_zh_score("3", "段落3") == 1.0);
}

TEST_CASE("an answer that names no paragraph is an error") {
  CHECK(error_of([&] { retrieval_score("1", "1"); }) == at("answer", {"\"Paragraph NUMBER\"", "\"1\""}));
  CHECK_THROWS_AS(retrieval_score("1", "Paragraph x"), error);
}
