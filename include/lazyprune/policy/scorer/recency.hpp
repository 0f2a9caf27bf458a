// SPDX-License-Identifier: MIT
// Scores later tokens higher. This is the sliding-window baseline.
#pragma once

#include <algorithm>
#include <string_view>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

/// The score is the position itself. Positions from 2^24 on may round to equal floats. Among equal scores the later positions stay.
struct recency {
  static constexpr std::string_view name = "recency";

  void score(const token_view& tokens, std::span<float> out) const {
    std::ranges::transform(tokens.positions, out.begin(), [](position p) { return static_cast<float>(p); });
  }

  template <class Visitor>
  void describe(Visitor&) {}

  friend bool operator==(const recency&, const recency&) = default;
};

static_assert(importance_scorer<recency>);

}  // namespace v0
}  // namespace lazyprune
