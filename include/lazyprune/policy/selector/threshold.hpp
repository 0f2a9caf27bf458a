// SPDX-License-Identifier: MIT
// Keeps the tokens whose score reaches a fixed number, however many they are.
#pragma once

#include <algorithm>
#include <limits>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/order.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// Keeps the tokens with a score of at least `score`, in the scorer's unit. If these are more than `keep`, it keeps the best `keep` of
/// them. Required tokens always stay. Among equal scores the later positions stay.
struct threshold {
  static constexpr std::string_view name = "threshold";
  float score = -std::numeric_limits<float>::infinity();

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    const auto enough = static_cast<std::size_t>(std::ranges::count_if(c.scores, [this](float s) { return s >= score; }));
    return detail::best(c.scores, std::min(c.keep, enough), kept);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(required("score"), score);
  }

  friend bool operator==(const threshold&, const threshold&) = default;
};

static_assert(token_selector<threshold>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
