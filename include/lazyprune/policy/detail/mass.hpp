// SPDX-License-Identifier: MIT
// Counts the best tokens that together hold a share of all scores. This takes at most five passes over the scores and allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/core/types.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Tokens are taken by falling score until they hold `share` of the mass. Returns the number of tokens taken. All tokens with a score of
/// +inf are taken first. Together they have the mass `required_mass`. The mass of a positive score is the score itself, and other scores
/// have no mass. The sums are in double. Up to 1e-9 of the mass may be missing, so that rounding never adds a token.
inline std::size_t fewest_holding(std::span<const float> scores, double share, double required_mass) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::size_t count = 0;
  double held = required_mass > 0.0 ? required_mass : 0.0;
  double total = held;
  for (const float score : scores) {
    if (score == inf) ++count;
    if (score > 0.0f && score < inf) total += score;
  }
  const double target = share * total * (1.0 - 1e-9);
  if (held >= target) return count;

  // Positive floats have the same order as their bits. Find the bits of the smallest score that is needed, one byte in each pass.
  struct bin {
    std::size_t count = 0;
    double mass = 0.0;
  };
  std::uint32_t least = 0;
  for (unsigned shift = 24;; shift -= 8) {
    std::array<bin, 256> bins{};
    for (const float score : scores) {
      if (!(score > 0.0f && score < inf)) continue;
      const auto bits = std::bit_cast<std::uint32_t>(score);
      if ((bits ^ least) >> shift >> 8) continue;
      bin& b = bins[bits >> shift & 0xffu];
      ++b.count;
      b.mass += score;
    }
    // The sums of two passes may differ in their last bits, so the bins together may fall short of `target`. The loop therefore stops at
    // the lowest bin that is not empty.
    const auto lowest = static_cast<std::uint32_t>(std::ranges::find_if(bins, [](const bin& b) { return b.count > 0; }) - bins.begin());
    std::uint32_t digit = 255;
    for (; digit > lowest && held + bins[digit].mass < target; --digit) {
      count += bins[digit].count;
      held += bins[digit].mass;
    }
    least |= digit << shift;
    if (shift > 0) continue;

    const double needed = std::ceil((target - held) / static_cast<double>(std::bit_cast<float>(least)));
    return count + static_cast<std::size_t>(std::clamp(needed, 1.0, static_cast<double>(bins[digit].count)));
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
