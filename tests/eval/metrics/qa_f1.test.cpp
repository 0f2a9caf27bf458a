// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metrics/qa_f1.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>

using namespace lazyprune;

TEST_CASE("F1 of words agrees with LongBench's") {
  check_best("qa_f1", [](const auto& p, const auto& a, const auto&) { return qa_f1(p, a); });
}

TEST_CASE("F1 of words, computed by hand") {
  CHECK(qa_f1("The cat, the dog!", "cat and dog") == doctest::Approx(2 * 1.0 * (2.0 / 3) / (1.0 + 2.0 / 3)).epsilon(1e-15));
  CHECK(qa_f1("b b a-b", "B") == doctest::Approx(2 * (1.0 / 3) / (1.0 / 3 + 1.0)).epsilon(1e-15));  // "ab" is one word, b occurs twice
  CHECK(qa_f1("an", "the") == 0.0);
  CHECK(qa_f1("", "") == 0.0);
}

TEST_CASE("F1 of characters") {
  check_best("qa_f1_chars", [](const auto& p, const auto& a, const auto&) { return qa_f1_chars(p, a); });
  CHECK(qa_f1_chars("北京，", "北京。") == 1.0);
  CHECK(qa_f1_chars("东京", "北京") == 0.5);
}

TEST_CASE("each byte that is not UTF-8 is one unknown character") {
  CHECK(qa_f1_chars("\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd") == 1.0);
  CHECK(qa_f1_chars("\xe4\xb8", "\xe4\xb8\xad") == 0.0);
}
