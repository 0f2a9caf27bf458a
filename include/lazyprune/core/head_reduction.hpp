// SPDX-License-Identifier: MIT
// Reduces the attention of all heads, or of several queries, to one row. Most scorers read only this row. Sums are taken in double, in the
// order of the heads, and rounded once. An engine that reduces in this way on its device gets the same bits as `reduce_heads` or
// `reduce_queries`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/core/views.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The ways to make one number out of the probabilities that several heads give to a token.
enum class head_reduction : std::uint8_t { mean, max };

namespace detail {

/// Calls `use(i, sum)` for each active token i. `add(first, sums)` adds to the sums of the tokens first, first + 1, ... `add` gets at most
/// 64 tokens at a time, so that evidence is read along its rows and the sums stay in cache.
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

/// Adds the probabilities in all heads to the sums of the tokens first, first + 1, ...
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

/// Takes the larger of `largest[i]` and `row[i]` into `largest[i]`. Compilers vectorize this loop. With std::max they do not, because it
/// returns a reference.
inline void take_larger(std::span<const float> row, std::span<float> largest) {
  for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = largest[i] < row[i] ? row[i] : largest[i];
}

}  // namespace detail

/// Writes each token's mean or maximum probability over the heads to `out` (active). There is at least one head.
inline void reduce_heads(const attention_view& attention, head_reduction over, std::span<float> out) {
  if (over == head_reduction::mean)
    return detail::mean_over_heads(attention, [&](std::size_t i, double mean) { out[i] = static_cast<float>(mean); });
  std::ranges::copy(attention.head(0), out.begin());
  for (std::size_t h = 1; h < attention.heads; ++h) detail::take_larger(attention.head(h), out);
}

/// Writes the probabilities of one head, reduced over the queries, to `out` (active). `data` is (queries, active), rows `stride` floats
/// apart; there is at least one query.
inline void reduce_queries(const float* data, std::size_t queries, std::size_t stride, query_reduction over, std::span<float> out) {
  const auto query = [&](std::size_t q) { return std::span<const float>(data + q * stride, out.size()); };
  if (over == query_reduction::mean)
    return detail::sum_tokens(
        out.size(),
        [&](std::size_t first, std::span<double> sums) {
          for (std::size_t q = 0; q < queries; ++q)
            for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += query(q)[first + i];
        },
        [&](std::size_t i, double sum) { out[i] = static_cast<float>(sum / static_cast<double>(queries)); });
  std::ranges::copy(query(queries - 1), out.begin());
  if (over == query_reduction::last) return;
  for (std::size_t q = 0; q + 1 < queries; ++q) detail::take_larger(query(q), out);
}

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
