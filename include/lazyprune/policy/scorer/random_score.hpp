// SPDX-License-Identifier: MIT
// A random number for each token: the baseline of random token drop (paper, section 4).
#pragma once

#include <algorithm>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/mix.hpp>

namespace lazyprune {
inline namespace v0 {

/// Scores are uniform in [0, 1), in steps of 2^-24. Take the SplitMix64 stream that starts at `seed` (Steele, Lea, Flood, OOPSLA 2014). The
/// score of the token at position p is made from the top 24 bits of the stream's number p, counted from 0. It is the same at every layer
/// and step, and on every machine.
struct random_score {
  static constexpr std::string_view name = "random";
  std::uint64_t seed = 0;

  void score(const token_view& tokens, std::span<float> out) const {
    std::ranges::transform(tokens.positions, out.begin(), [this](position p) { return static_cast<float>(mix(seed, p) >> 40) * 0x1p-24f; });
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("seed", seed);
  }

  friend bool operator==(const random_score&, const random_score&) = default;
};

static_assert(importance_scorer<random_score>);

}  // namespace v0
}  // namespace lazyprune
