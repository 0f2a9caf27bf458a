// SPDX-License-Identifier: MIT
// Half of some samples, for a search, so that what it finds can be scored on the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <lazyprune/core/mix.hpp>

namespace lazyprune {
inline namespace v0 {

/// Says of each of `size` samples whether it is in the drawn half, the larger one where their number is odd. The half is drawn, and is not
/// every other sample: data that repeat in their order, lengths say, would be parted by what they repeat. Every run draws the same.
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
