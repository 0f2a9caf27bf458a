// SPDX-License-Identifier: MIT
#include <lazyprune/session/finite_evidence.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "unusual_numbers.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

/// Puts `number` at this place among 40 numbers. Returns the token of the first number that is not finite.
std::optional<position> token_of(std::size_t place, float number, auto view_over) {
  std::vector<float> numbers(40, 0.5f);
  numbers[place] = number;
  const auto wrong = find_not_finite(evidence(view_over(numbers.data())));
  if (!wrong) return std::nullopt;
  CHECK((std::isnan(number) ? std::isnan(wrong->value) : wrong->value == number));
  return wrong->token;
}

const std::vector<position> active{2, 5, 6, 9}, rows{5, 9};

}  // namespace

TEST_CASE("finite numbers of any size are accepted") {
  for (const float number : {0.0f, -1.0f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 1e-45f})
    CHECK(!token_of(1, number, [](const float* data) { return attention_view{data, 2, 6, active}; }));
  CHECK(!find_not_finite(evidence()));
  CHECK(!find_not_finite(id_view{{}, active}));
}

TEST_CASE("the token of a number that is not finite is found, and numbers between the rows are not read") {
  for (const float number : {infinity, -infinity, not_a_number, -not_a_number}) {
    const auto attention = [](const float* data) { return attention_view{data, 3, 6, active}; };
    CHECK(token_of(0, number, attention) == 2);
    CHECK(token_of(2 * 6 + 3, number, attention) == 9);
    CHECK(!token_of(4, number, attention));
    CHECK(!token_of(3 * 6, number, attention));

    const auto window = [](const float* data) { return window_view{data, 2, 3, 5, active}; };
    CHECK(token_of(5 * 5 + 1, number, window) == 5);
    CHECK(!token_of(5 * 5 + 4, number, window));

    const auto keys = [](const float* data) { return key_view{data, 2, 3, 8, active}; };
    CHECK(token_of(2 * 8 + 5, number, keys) == 6);
    CHECK(!token_of(2 * 8 + 6, number, keys));

    const auto values = [](const float* data) { return value_view{{data, 1, 4, active}, data + 8, 2, 3, 8}; };
    CHECK(token_of(1, number, values) == 5);
    CHECK(token_of(8 + 3 * 8 + 2, number, values) == 9);
    CHECK(!token_of(8 + 6, number, values));

    const auto hidden = [](const float* data) { return hidden_view{data, 7, 10, rows, active}; };
    CHECK(token_of(10 + 6, number, hidden) == 9);
    CHECK(!token_of(10 + 7, number, hidden));
    CHECK(!token_of(20, number, hidden));
  }
}

TEST_CASE("a number that is not finite is found at each place of a long row") {
  for (const std::size_t place : {0u, 1u, 63u, 64u, 127u, 128u, 149u}) {
    std::vector<float> numbers(150, 0.5f);
    std::vector<position> tokens(150);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<position>(2 * i);
    const attention_view view{numbers.data(), 1, numbers.size(), tokens};
    CHECK(!find_not_finite(view));
    numbers[place] = not_a_number;
    CHECK(find_not_finite(view)->token == 2 * place);
  }
}
