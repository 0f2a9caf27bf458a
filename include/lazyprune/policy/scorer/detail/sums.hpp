// SPDX-License-Identifier: MIT
// Sums for scores: in double, each rounded once, so that two programs agree on a score far better than its 1e-6. Those over tokens and
// heads are with the heads' reduction.
#pragma once

#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include <lazyprune/core/head_reduction.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The Euclidean length of a vector.
inline double length(std::span<const float> vector) {
  std::array<double, 8> sums{};  // independent of each other: they need not be added one after another
  const auto add = [&](std::size_t i, std::size_t lane) { sums[lane] += double{vector[i]} * double{vector[i]}; };
  const std::size_t whole = vector.size() - vector.size() % sums.size();
  for (std::size_t i = 0; i < whole; i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane) add(i + lane, lane);
  for (std::size_t i = whole; i < vector.size(); ++i) add(i, i - whole);
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
