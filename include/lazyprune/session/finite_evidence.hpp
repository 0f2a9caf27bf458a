// SPDX-License-Identifier: MIT
// Checks the numbers that an engine shows. If a probability, key, value or hidden state is not finite, the engine is at fault, and a score
// computed from it is meaningless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include <lazyprune/core/evidence.hpp>
#include <lazyprune/core/finite.hpp>

namespace lazyprune {
inline namespace v0 {

/// A NaN or infinity, and the token that it belongs to.
struct number_not_finite {
  position token;
  float value;
};

namespace detail {

/// The first number of the row that is not finite. Column i belongs to tokens[i].
inline std::optional<number_not_finite> not_finite_in_row(std::span<const float> row, std::span<const position> tokens) noexcept {
  if (all_finite(row)) return std::nullopt;
  std::size_t i = 0;
  while (is_finite(row[i])) ++i;
  return number_not_finite{tokens[i], row[i]};
}

/// The first number of the rows that is not finite. Row i has `width` numbers from data[i * stride] on, and belongs to tokens[i].
inline std::optional<number_not_finite> not_finite_in_rows(const float* data, std::size_t stride, std::size_t width,
                                                           std::span<const position> tokens) noexcept {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::span<const float> row(data + i * stride, width);
    if (all_finite(row)) continue;
    for (const float x : row)
      if (!is_finite(x)) return number_not_finite{tokens[i], x};
  }
  return std::nullopt;
}

inline std::optional<number_not_finite> not_finite(const attention_view& view) noexcept {
  for (std::size_t h = 0; h < view.heads; ++h)
    if (const auto wrong = not_finite_in_row(view.head(h), view.positions)) return wrong;
  return std::nullopt;
}
inline std::optional<number_not_finite> not_finite(const window_view& view) noexcept {
  for (std::size_t q = 0; q < view.queries; ++q)
    if (const auto wrong = not_finite(view.query(q))) return wrong;
  return std::nullopt;
}
inline std::optional<number_not_finite> not_finite(const key_view& view) noexcept {
  return not_finite_in_rows(view.data, view.stride, view.kv_heads * view.head_dim, view.positions);
}
inline std::optional<number_not_finite> not_finite(const value_view& view) noexcept {
  if (const auto wrong = not_finite(view.attention)) return wrong;
  return not_finite_in_rows(view.values, view.stride, view.kv_heads * view.head_dim, view.attention.positions);
}
inline std::optional<number_not_finite> not_finite(const hidden_view& view) noexcept {
  return not_finite_in_rows(view.data, view.stride, view.hidden, view.rows);
}
inline std::optional<number_not_finite> not_finite(const probe_view& view) noexcept {
  for (std::size_t p = 0; p < view.probes; ++p)
    if (const auto wrong = not_finite_in_row(view.probe(p), view.positions)) return wrong;
  return std::nullopt;
}
inline std::optional<number_not_finite> not_finite(const token_view&) noexcept { return std::nullopt; }
inline std::optional<number_not_finite> not_finite(const id_view&) noexcept { return std::nullopt; }

}  // namespace detail

/// The first number that is not finite; nullopt if all are finite, or if the evidence has no numbers.
inline std::optional<number_not_finite> find_not_finite(const evidence& shown) noexcept {
  return std::visit([](const auto& view) { return detail::not_finite(view); }, shown);
}

}  // namespace v0
}  // namespace lazyprune
