// SPDX-License-Identifier: MIT
// Draws half of the samples for a search. The other half then scores what the search found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <lazyprune/core/mix.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns for each of `size` samples whether it is in the drawn half. If `size` is odd, the drawn half is the larger one. The half is
/// drawn at random, because every second sample could be a biased choice, for example if long and short samples alternate. The same `seed`
/// always draws the same half.
inline std::vector<bool> drawn_half(std::size_t size, std::uint64_t seed = 0) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return mix(seed, i); });
  std::vector<bool> drawn(size, false);
  for (std::size_t k = 0; k < (size + 1) / 2; ++k) drawn[order[k]] = true;
  return drawn;
}

}  // namespace v0
}  // namespace lazyprune
