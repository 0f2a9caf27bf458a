// SPDX-License-Identifier: MIT
// How many of the possible faults a test tries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

namespace lazyprune_test {

/// Returns whether all faults are tried, and not only a few. `.ci/run --long` sets this mode.
inline bool every_fault() { return std::getenv("LAZYPRUNE_TEST_EVERY_FAULT") != nullptr; }

/// Returns `few` of the numbers from `first` to `end` - 1, drawn without repetition, ascending.
inline std::vector<std::size_t> drawn(std::size_t few, std::size_t first, std::size_t end, unsigned seed = 1) {
  std::vector<std::size_t> all(end - std::min(first, end)), some;
  std::iota(all.begin(), all.end(), first);
  std::mt19937 random(seed);
  std::sample(all.begin(), all.end(), std::back_inserter(some), few, random);
  return some;
}

}  // namespace lazyprune_test
