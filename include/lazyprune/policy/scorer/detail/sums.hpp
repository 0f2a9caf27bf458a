// SPDX-License-Identifier: MIT
// Sums for scores. They are taken in double and rounded once. The scores of two programs therefore differ by far less than the 1e-6 that
// trace comparisons allow (eval/trace_compare.hpp). Sums over tokens and heads are in core/head_reduction.hpp.
#pragma once

#include <array>
#include <cmath>
#include <span>

#include <lazyprune/core/head_reduction.hpp>
#include <lazyprune/core/precise_math.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The Euclidean length of a vector.
inline double length(std::span<const float> vector) {
  std::array<double, 8> sums{};  // eight independent sums, so that the additions can overlap
  const auto add = [&](std::size_t i, std::size_t lane) { sums[lane] += double{vector[i]} * double{vector[i]}; };
  const std::size_t whole = vector.size() - vector.size() % sums.size();
  for (std::size_t i = 0; i < whole; i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane) add(i + lane, lane);
  for (std::size_t i = whole; i < vector.size(); ++i) add(i, i - whole);
  double sum = 0.0;
  for (const double one : sums) sum += one;
  return std::sqrt(sum);
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
