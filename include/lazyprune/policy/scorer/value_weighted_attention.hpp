// SPDX-License-Identifier: MIT
// Attention weighted by the size of the values, after VATP (arXiv 2406.12335). Attention sinks have large probabilities but small values.
#pragma once

#include <array>
#include <cmath>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/scorer/detail/sums.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

enum class vector_norm : std::uint8_t { l2, l1 };

/// The score of token i is the mean over the query heads h of a(h, i) * |v(i, the value head of h)|. Here a is the query token's attention
/// probability, and v the value. The score is never negative.
struct value_weighted_attention {
  static constexpr std::string_view name = "value_weighted_attention";
  vector_norm norm = vector_norm::l2;  // the paper takes l1; l2 is the distance by which the value moves the output

  void score(const value_view& view, std::span<float> out) const {
    const std::size_t heads = view.attention.heads;
    const auto add = [&](std::size_t first, std::span<double> sums) {
      for (std::size_t v = 0; v < view.kv_heads; ++v) {
        // The query heads `begin` to `end` - 1 use value head v: query head h uses value head h * kv_heads / heads, rounded down.
        const std::size_t begin = (v * heads + view.kv_heads - 1) / view.kv_heads;
        const std::size_t end = ((v + 1) * heads + view.kv_heads - 1) / view.kv_heads;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          double attention = 0.0;
          for (std::size_t h = begin; h < end; ++h) attention += view.attention(h, first + i);
          sums[i] += attention * size_of_value(view.head(first + i, v));
        }
      }
    };
    detail::sum_tokens(view.active(), add,
                       [&](std::size_t i, double sum) { out[i] = static_cast<float>(sum / static_cast<double>(heads)); });
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("norm", norm, {"l2", "l1"});
  }

  friend bool operator==(const value_weighted_attention&, const value_weighted_attention&) = default;

 private:
  double size_of_value(std::span<const float> value) const {
    if (norm == vector_norm::l2) return detail::length(value);
    double sum = 0.0;
    for (const float x : value) sum += std::abs(x);
    return sum;
  }
};

static_assert(importance_scorer<value_weighted_attention>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
