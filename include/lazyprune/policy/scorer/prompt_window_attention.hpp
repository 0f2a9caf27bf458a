// SPDX-License-Identifier: MIT
// SnapKV's score, remembered after the prompt (arXiv 2404.14469). The attention of the prompt's last queries decides which prompt tokens
// are seen during generation.
#pragma once

#include <algorithm>
#include <limits>
#include <string_view>

#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The score is the window_attention of the prompt, summed over the done layers at which the token was active. A step of one token adds
/// nothing to the sums. It uses the prompt's sums, so that all such steps choose the same tokens of the prompt. Some tokens rank before all
/// others, later ones first: all tokens that were read in one-token steps, and the last `window` of the other tokens. The former are the
/// generated tokens of this turn and of all earlier ones, and prompts of one token. The latter may be of earlier prompts if the last prompt
/// is shorter than `window`. SnapKV chooses for every layer and head separately; here all layers and heads keep the same tokens.
///
/// Use it with schedules that prune only the steps after the prompt, and with selectors that count or compare scores (top_k, blocks,
/// threshold). The tokens that rank first have the largest float as their score. They hold almost all of the mass, so top_p and adaptive
/// schedules would keep no others. The memory (known) has the sum of each position. It has +inf for tokens that were read in one-token
/// steps.
struct prompt_window_attention {
  static constexpr std::string_view name = "prompt_window_attention";
  positive window = 32;
  pooling_kernel kernel = 7;
  pooling pool = pooling::max;

  void score(const every_layer<window_view>& view, std::span<float> out) const {
    constexpr float alone = std::numeric_limits<float>::infinity(), foremost = std::numeric_limits<float>::max();
    constexpr float least = std::numeric_limits<float>::min();  // a gathered sum is never 0, so that 0 marks a new token
    const std::span<const position> positions = view.now.positions;
    const std::size_t n = positions.size();
    float& query = view.memory[positions.back()];
    if (view.layer == 0 && (n == 1 || view.memory[positions[n - 2]] > 0.0f)) query = alone;
    if (query != alone) {
      window_attention{window, kernel, pool}.score(view.now, out);
      for (std::size_t i = 0; i < n; ++i) view.memory[positions[i]] += std::max(out[i], least);
    }
    std::size_t newest = window;  // how many of the prompt's last `window` tokens are still to come
    for (std::size_t i = n; i-- > 0;) {
      const float gathered = view.memory[positions[i]];
      const bool first = gathered == alone || newest > 0;
      if (gathered != alone && newest > 0) --newest;
      out[i] = first ? foremost : gathered;
    }
  }

  head_reduction over_heads() const { return head_reduction::mean; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("window", window);
    visit("kernel", kernel);
    visit("pool", pool, {"max", "mean"});
  }

  friend bool operator==(const prompt_window_attention&, const prompt_window_attention&) = default;
};

static_assert(importance_scorer<prompt_window_attention>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
