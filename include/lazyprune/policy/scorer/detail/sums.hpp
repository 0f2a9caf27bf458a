// SPDX-License-Identifier: MIT
// Sums for scores: in double, each rounded once, so that two programs agree on a score far better than its 1e-6.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <lazyprune/core/views.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Calls `use(i, sum)` for each of the active tokens. `add(first, sums)` adds to the sums of the tokens first, first + 1, ...: a few at a
/// time, so that evidence is read along its rows and the sums stay at hand.
template <class Add, class Use>
void sum_tokens(std::size_t active, Add add, Use use) {
  std::array<double, 64> buffer;
  for (std::size_t first = 0; first < active; first += buffer.size()) {
    const auto sums = std::span(buffer).first(std::min(buffer.size(), active - first));
    std::ranges::fill(sums, 0.0);
    add(first, sums);
    for (std::size_t i = 0; i < sums.size(); ++i) use(first + i, sums[i]);
  }
}

/// Adds the probabilities of the tokens first, first + 1, ... in all heads to their sums.
inline void add_heads(const attention_view& attention, std::size_t first, std::span<double> sums) {
  for (std::size_t h = 0; h < attention.heads; ++h) {
    const auto row = attention.head(h).subspan(first, sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += row[i];
  }
}

/// Calls `use(i, mean)` with the mean of each active token's probability over the heads.
template <class Use>
void mean_over_heads(const attention_view& attention, Use use) {
  sum_tokens(
      attention.active(), [&](std::size_t first, std::span<double> sums) { add_heads(attention, first, sums); },
      [&](std::size_t i, double sum) { use(i, sum / static_cast<double>(attention.heads)); });
}

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
