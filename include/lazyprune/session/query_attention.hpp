// SPDX-License-Identifier: MIT
// Computes attention probabilities of the query token, or of the last queries, from raw pointers. It serves engines whose fused attention
// yields no probabilities. A query costs one pass over the keys. This is about the cost of a layer's attention in a decode step.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/core/views.hpp>
#include <lazyprune/session/finite_evidence.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// Keys as most engines hold them, of any floating-point type that converts to float.
template <class T>
struct key_rows {
  const T* data;  // (slots, kv_heads, head_dim), after RoPE
  std::size_t kv_heads;
  std::size_t head_dim;
  std::size_t stride;                    // distance between slots, in numbers
  std::span<const std::uint32_t> slots;  // (active): the slot of each active token's key; empty: the i-th active token is in slot i
};

namespace detail {

/// `what`: "query" or "key".
[[noreturn]] inline void refuse_number(const char* what, const number_not_finite& wrong) {
  report_error(error("query_attention", std::string(what) + " of the token at position " + std::to_string(wrong.token), "finite numbers",
                     std::to_string(wrong.value)));
}

}  // namespace detail

/// Computes softmax(q.k / sqrt(head_dim)) over the active tokens, for each query head. Writes it to `out` (heads, active), rows `stride`
/// floats apart. `query` (heads, head_dim) holds the queries of the query token, after RoPE. If the model uses a factor other than 1 /
/// sqrt(head_dim), scale `query` to make up for it. Soft caps and attention sinks are not supported. Query head h reads key head
/// h * kv_heads / heads. Throws `error` (bad_input) with the token's position if a number of the query or of a key is not finite.
template <class Q, class K>
attention_view query_attention(const Q* query, std::size_t heads, const key_rows<K>& keys, std::span<const position> active, float* out,
                               std::size_t stride) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(keys.head_dim));
  for (std::size_t d = 0; d < heads * keys.head_dim && !active.empty(); ++d)
    if (const auto number = static_cast<float>(query[d]); !is_finite(number)) detail::refuse_number("query", {active.back(), number});
  for (std::size_t h = 0; h < heads; ++h) {
    const Q* q = query + h * keys.head_dim;
    const std::span<float> row(out + h * stride, active.size());
    for (std::size_t i = 0; i < active.size(); ++i) {
      const std::size_t slot = keys.slots.empty() ? i : keys.slots[i];
      const K* k = keys.data + slot * keys.stride + h * keys.kv_heads / heads * keys.head_dim;
      double dot = 0.0;
      for (std::size_t d = 0; d < keys.head_dim; ++d) dot += static_cast<double>(static_cast<float>(q[d])) * static_cast<float>(k[d]);
      row[i] = static_cast<float>(dot * scale);
    }
    // This also finds keys that are not finite, because their dot products are not finite.
    if (const auto wrong = detail::not_finite_in_row(row, active)) detail::refuse_number("key", *wrong);
    const float highest = std::ranges::max(row);
    double sum = 0.0;
    for (float& p : row) sum += p = std::exp(p - highest);
    for (float& p : row) p = static_cast<float>(p / sum);
  }
  return {out, heads, stride, active};
}

/// Computes the probabilities of the last queries in the same way. `queries` (rows, heads, head_dim) holds the queries at the positions
/// `rows`, `query_stride` numbers apart. Writes to `out` (rows, heads, active). A row does not see the active tokens after its own
/// position; it gives them the probability 0.
template <class Q, class K>
window_view query_attention(const Q* queries, std::size_t query_stride, std::size_t heads, const key_rows<K>& keys,
                            std::span<const position> active, std::span<const position> rows, float* out) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto seen = static_cast<std::size_t>(std::ranges::upper_bound(active, rows[r]) - active.begin());
    float* const to = out + r * heads * active.size();
    key_rows<K> before = keys;
    if (!keys.slots.empty()) before.slots = keys.slots.first(seen);
    query_attention(queries + r * query_stride, heads, before, active.first(seen), to, active.size());
    for (std::size_t h = 0; h < heads; ++h) std::fill_n(to + h * active.size() + seen, active.size() - seen, 0.0f);
  }
  return {out, rows.size(), heads, active.size(), active};
}

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
