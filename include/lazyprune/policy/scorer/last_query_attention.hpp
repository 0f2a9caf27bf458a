// SPDX-License-Identifier: MIT
// LazyLLM's importance score (arXiv 2407.14057, Eq. 1): how much the query token attends to each token, over all heads.
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/head_reduction.hpp>

namespace lazyprune {
inline namespace v0 {

/// The score is the mean or the maximum of the probabilities in the query heads. It is in [0, 1].
struct last_query_attention {
  static constexpr std::string_view name = "last_query_attention";
  using row_is_score = last_query_attention;
  head_reduction over = head_reduction::mean;  // the paper's choice

  void score(const attention_view& attention, std::span<float> out) const { reduce_heads(attention, over, out); }

  head_reduction over_heads() const { return over; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("over", over, {"mean", "max"});
  }

  friend bool operator==(const last_query_attention&, const last_query_attention&) = default;
};

static_assert(importance_scorer<last_query_attention>);

}  // namespace v0
}  // namespace lazyprune
