// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/prompt_window_attention.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<prompt_window_attention>);

struct prompt_window_attention_values {
  static std::vector<prompt_window_attention> all() {
    return {{}, {.window = 1, .kernel = 1}, {.window = 5, .kernel = 5, .pool = pooling::mean}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, prompt_window_attention_values);

constexpr float foremost = std::numeric_limits<float>::max();

/// Shows one layer of a sequence to the scorer and returns the scores. `seen` is the last query's attention to each token, in a single
/// head.
std::vector<float> score(const prompt_window_attention& scorer, layer_id layer, std::vector<float>& memory,
                         const std::vector<position>& positions, const std::vector<float>& seen) {
  std::vector<float> out(positions.size());
  scorer.score({window_view{seen.data(), 1, 1, positions.size(), positions}, layer, memory}, out);
  return out;
}

TEST_CASE("the scores of the prompt's layers are summed, and its last tokens rank first") {
  const prompt_window_attention scorer{.window = 1, .kernel = 1};
  std::vector<float> memory(4);
  CHECK(score(scorer, 0, memory, {0, 1, 2, 3}, {0.5f, 0.25f, 0.0f, 0.25f})[0] == 0.5f);
  CHECK(score(scorer, 1, memory, {0, 2, 3}, {0.25f, 0.5f, 0.25f}) == std::vector<float>{0.75f, 0.5f, foremost});
  CHECK(memory == std::vector<float>{0.75f, 0.25f, 0.5f, 0.5f});
}

TEST_CASE("one-token steps use the prompt's sums, and their tokens rank first, like the prompt's last tokens") {
  const prompt_window_attention scorer{.window = 2, .kernel = 1};
  std::vector<float> memory(4);
  score(scorer, 0, memory, {0, 1, 2, 3}, {0.5f, 0.25f, 0.0f, 0.25f});
  score(scorer, 1, memory, {0, 1, 2, 3}, {0.0f, 0.5f, 0.0f, 0.5f});
  for (int step = 0; step < 3; ++step) {
    memory.push_back(0.0f);
    std::vector<position> positions(memory.size());
    std::iota(positions.begin(), positions.end(), 0u);
    for (layer_id layer = 0; layer < 3; ++layer) {
      std::vector<float> expected{0.5f, 0.75f, foremost, foremost};
      expected.resize(memory.size(), foremost);
      CHECK(score(scorer, layer, memory, positions, std::vector<float>(memory.size(), 0.125f)) == expected);
    }
  }
  CHECK(memory[1] == 0.75f);
}

TEST_CASE("the attention of a later turn of many tokens is summed like the first turn's") {
  const prompt_window_attention scorer{.window = 1, .kernel = 1};
  std::vector<float> memory(2);
  score(scorer, 0, memory, {0, 1}, {0.5f, 0.5f});
  memory.push_back(0.0f);
  score(scorer, 0, memory, {0, 1, 2}, {0.5f, 0.25f, 0.25f});
  memory.resize(5);
  CHECK(score(scorer, 0, memory, {0, 1, 2, 3, 4}, {0.25f, 0.0f, 0.25f, 0.25f, 0.25f}) ==
        std::vector<float>{0.75f, 0.5f, foremost, 0.25f, foremost});
}

TEST_CASE("the scores are pooled as in window_attention") {
  const std::vector<position> positions{0, 1, 2, 3, 4};
  const std::vector<float> seen{0.0f, 0.5f, 0.0f, 0.0f, 0.5f};
  for (const pooling pool : {pooling::max, pooling::mean}) {
    std::vector<float> memory(5), expected(5);
    window_attention{.window = 1, .kernel = 3, .pool = pool}.score({seen.data(), 1, 1, 5, positions}, expected);
    score({.window = 1, .kernel = 3, .pool = pool}, 0, memory, positions, seen);
    CHECK(memory == expected);
  }
}

}  // namespace
