// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metrics/rouge_l.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>

using namespace lazyprune;

TEST_CASE("ROUGE-L agrees with the package rouge") {
  check_best("rouge_l", [](const auto& p, const auto& a, const auto&) { return rouge_l(p, a); });
}

TEST_CASE("ROUGE-L over characters") {
  check_best("rouge_l_chars", [](const auto& p, const auto& a, const auto&) { return rouge_l_chars(p, a); });
}

TEST_CASE("equal texts score a little below 1, and texts without a sentence score 0") {
  CHECK(rouge_l("one two", "one two") == 2.0 * (1.0 / (2.0 + 1e-8)));
  CHECK(rouge_l("", "") == 0.0);
  CHECK(rouge_l("...", "a") == 0.0);
  CHECK(rouge_l("a", ".") == 0.0);
}

TEST_CASE("sentences longer than Python's recursion limit have a score") {
  std::string numbers;
  for (int i = 0; i < 3000; ++i) numbers += std::to_string(i) + " ";
  CHECK(rouge_l(numbers, numbers) == 2.0 * (1.0 / (2.0 + 1e-8)));
}
