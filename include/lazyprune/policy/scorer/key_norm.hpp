// SPDX-License-Identifier: MIT
// Scores a token by the norm of its keys, without attention probabilities: keys of small norm draw attention (Devoto et al., arXiv
// 2406.11430).
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/scorer/detail/sums.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The score is minus the Euclidean length of the key, averaged over the key heads. It is never positive, so it has no mass for top_p or
/// adaptive.
struct key_norm {
  static constexpr std::string_view name = "key_norm";

  void score(const key_view& keys, std::span<float> out) const {
    for (std::size_t i = 0; i < keys.active(); ++i) {
      double sum = 0.0;
      for (std::size_t h = 0; h < keys.kv_heads; ++h) sum += detail::length(keys.head(i, h));
      out[i] = static_cast<float>(-sum / static_cast<double>(keys.kv_heads));
    }
  }

  template <class Visitor>
  void describe(Visitor&) {}

  friend bool operator==(const key_norm&, const key_norm&) = default;
};

static_assert(importance_scorer<key_norm>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
