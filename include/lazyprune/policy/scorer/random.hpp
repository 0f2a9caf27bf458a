// SPDX-License-Identifier: MIT
// A number drawn for each token: the baseline of random token drop (paper, section 4).
#pragma once

#include <algorithm>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune::inline v0 {

/// Uniform in [0, 1), in steps of 2^-24: the top bits of the number at `position` in the stream of SplitMix64 that `seed` starts (Steele,
/// Lea, Flood, OOPSLA 2014). A token has the same number at every layer and step, and on every machine.
struct random {
  std::uint64_t seed = 0;

  void score(const token_view& tokens, std::span<float> out) const {
    std::ranges::transform(tokens.positions, out.begin(), [this](position p) { return static_cast<float>(bits(p) >> 40) * 0x1p-24f; });
  }

  friend bool operator==(const random&, const random&) = default;

 private:
  std::uint64_t bits(position p) const {
    std::uint64_t z = seed + (std::uint64_t{p} + 1) * 0x9e37'79b9'7f4a'7c15u;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9u;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebu;
    return z ^ z >> 31;
  }
};

static_assert(importance_scorer<random>);

}  // namespace lazyprune::inline v0
