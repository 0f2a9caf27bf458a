// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/any_scorer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <lazyprune/policy/scorer/accumulated_attention.hpp>
#include <lazyprune/policy/scorer/key_norm.hpp>
#include <lazyprune/policy/scorer/last_query_attention.hpp>
#include <lazyprune/policy/scorer/prompt_window_attention.hpp>
#include <lazyprune/policy/scorer/recency.hpp>
#include <lazyprune/policy/scorer/value_weighted_attention.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>

namespace {

using namespace lazyprune;

static_assert(importance_scorer<any_scorer> && chosen_scorer<any_scorer> && !chosen_scorer<last_query_attention>);
static_assert(std::same_as<evidence_of<any_scorer>, lazyprune::evidence>);

void needs(const any_scorer& scorer, evidence_kind kind, bool every_layer, std::size_t window) {
  CHECK(scorer.needs().kind == kind);
  CHECK(scorer.needs().every_layer == every_layer);
  CHECK(scorer.needs().window == window);
}

TEST_CASE("any_scorer needs the evidence that its inner scorer needs") {
  needs(last_query_attention{}, evidence_kind::attention, false, 0);
  needs(accumulated_attention{}, evidence_kind::attention, true, 0);
  needs(window_attention{.window = 8}, evidence_kind::window, false, 8);
  needs(prompt_window_attention{.window = 9}, evidence_kind::window, true, 9);
  needs(value_weighted_attention{}, evidence_kind::values, false, 0);
  needs(key_norm{}, evidence_kind::keys, false, 0);
  needs(recency{}, evidence_kind::none, false, 0);
}

const std::vector<position> positions{2, 5, 7};
const std::vector<float> numbers{0.5f, 0.25f, 0.25f, 0.125f, 0.375f, 0.5f};
const attention_view attention{numbers.data(), 2, 3, positions};

TEST_CASE("any_scorer gives the scores of its inner scorer") {
  std::vector<float> out(3), expected(3);
  any_scorer scorer = last_query_attention{head_reduction::max};
  scorer.score({attention, 1, {}}, out);
  last_query_attention{head_reduction::max}.score(attention, expected);
  CHECK(out == expected);

  scorer = recency{};
  scorer.score({token_view{positions, 0, 8}, 0, {}}, out);
  CHECK(out == std::vector<float>{2.0f, 5.0f, 7.0f});
}

TEST_CASE("the scores stay the same if the evidence has only one head, the mean or maximum (as over_heads says) of all heads") {
  constexpr std::size_t queries = 3, heads = 4, n = 11;
  std::mt19937 random(5);
  std::vector<float> all(queries * heads * n);
  for (float& p : all) p = std::uniform_real_distribution<float>(0.0f, 1.0f)(random);
  std::vector<position> active(n);
  std::iota(active.begin(), active.end(), 0u);
  const auto compared = [&](any_scorer scorer) {
    const scorer_needs needs = scorer.needs();
    REQUIRE(needs.over_heads);
    std::vector<float> one(queries * n);
    for (std::size_t q = 0; q < queries; ++q)
      for (std::size_t i = 0; i < n; ++i) {
        float sum = 0.0f, most = 0.0f;
        for (std::size_t h = 0; h < heads; ++h) {
          sum += all[(q * heads + h) * n + i];
          most = std::max(most, all[(q * heads + h) * n + i]);
        }
        one[q * n + i] = needs.over_heads == head_reduction::mean ? sum / heads : most;
      }
    const auto score = [&](const std::vector<float>& data, std::size_t data_heads) {
      std::vector<float> out(n), memory(n);
      if (needs.kind == evidence_kind::window)
        scorer.score({window_view{data.data(), queries, data_heads, n, active}, 1, memory}, out);
      else
        scorer.score({attention_view{data.data(), data_heads, n, active}, 1, memory}, out);
      return out;
    };
    const std::vector<float> expected = score(all, heads), found = score(one, 1);
    for (std::size_t i = 0; i < n; ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  };
  compared(last_query_attention{});
  compared(last_query_attention{head_reduction::max});
  compared(accumulated_attention{});
  compared(window_attention{.window = queries, .kernel = 3});
  compared(prompt_window_attention{.window = queries, .kernel = 3});
  CHECK(!any_scorer(value_weighted_attention{}).needs().over_heads);
  CHECK(!any_scorer(key_norm{}).needs().over_heads);
}

TEST_CASE("the inner scorer of any_scorer accumulates in the memory of the view") {
  any_scorer scorer = accumulated_attention{};
  std::vector<float> memory(8), expected_memory(8), out(3), expected(3);
  for (layer_id layer = 0; layer < 3; ++layer) {
    scorer.score({attention, layer, memory}, out);
    accumulated_attention{}.score({attention, layer, expected_memory}, expected);
    CHECK(out == expected);
  }
  CHECK(memory == expected_memory);
  CHECK(memory[2] > 0.0f);
}

/// A scorer with its own state.
struct counting {
  float calls = 0;
  void score(const attention_view&, std::span<float> out) { std::ranges::fill(out, ++calls); }
};

TEST_CASE("copies of any_scorer copy the state of the scorer") {
  any_scorer scorer = counting{};
  std::vector<float> out(3);
  scorer.score({attention, 0, {}}, out);
  const any_scorer copy = scorer;
  scorer.score({attention, 1, {}}, out);
  CHECK(out[0] == 2.0f);
  CHECK(copy.target<counting>()->calls == 1.0f);
  CHECK(copy.target<last_query_attention>() == nullptr);
  scorer = copy;
  CHECK(scorer.target<counting>()->calls == 1.0f);
}

}  // namespace
