// SPDX-License-Identifier: MIT
// Attention accumulated over layers and steps. H2O (arXiv 2306.14048) ranks its heavy hitters by the sum. CLAA (arXiv 2602.16054) takes the
// maximum over the layers.
#pragma once

#include <algorithm>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/scorer/detail/sums.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

enum class layer_reduction : std::uint8_t { sum, max };
enum class memory_span : std::uint8_t { sequence, step };

/// Each layer but the last gives each active token a number: the query token's attention to the token, averaged over the heads. A token's
/// score is the sum or maximum of its numbers, since the start of the sequence or of the step (`since`). CLAA takes the numbers of one
/// step. H2O sums over all queries; here only the query token of each step counts. The memory (known) has the sum or maximum of each
/// position. With `since` = step, a layer after the last pruning of the step gives no number, because no score of that step needs it.
struct accumulated_attention {
  static constexpr std::string_view name = "accumulated_attention";
  layer_reduction over = layer_reduction::sum;
  memory_span since = memory_span::sequence;

  void score(const every_layer<attention_view>& view, std::span<float> out) const {
    if (since == memory_span::step && view.layer == 0) std::ranges::fill(view.memory, 0.0f);
    detail::mean_over_heads(view.now, [&](std::size_t i, double mean) {
      float& gathered = view.memory[view.now.positions[i]];
      gathered = over == layer_reduction::sum ? static_cast<float>(gathered + mean) : std::max(gathered, static_cast<float>(mean));
      out[i] = gathered;
    });
  }

  head_reduction over_heads() const { return head_reduction::mean; }
  bool of_one_step() const { return since == memory_span::step; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("over", over, {"sum", "max"});
    visit("since", since, {"sequence", "step"});
  }

  friend bool operator==(const accumulated_attention&, const accumulated_attention&) = default;
};

static_assert(importance_scorer<accumulated_attention>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
