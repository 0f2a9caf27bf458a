// SPDX-License-Identifier: MIT
// Evidence of any kind as one value, for scorers that are chosen at run time: what an engine shows, and what a scorer needs to see.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <variant>

#include <lazyprune/core/head_reduction.hpp>
#include <lazyprune/core/views.hpp>

namespace lazyprune {
inline namespace v0 {

enum class evidence_kind : std::uint8_t { none, attention, window, keys, values, hidden, ids };

constexpr std::string_view name_of(evidence_kind kind) {
  constexpr std::string_view names[] = {"no evidence", "attention", "a window of queries", "keys", "values", "hidden states", "ids"};
  return names[static_cast<std::size_t>(kind)];
}

/// The alternatives are in the order of evidence_kind. Positions need no engine, so that with `evidence{}` an engine shows nothing.
using evidence = std::variant<token_view, attention_view, window_view, key_view, value_view, hidden_view, id_view>;

/// What the engine has to deliver for this view.
template <class View>
constexpr evidence_kind kind_of() {
  if constexpr (std::same_as<View, attention_view>) return evidence_kind::attention;
  if constexpr (std::same_as<View, window_view>) return evidence_kind::window;
  if constexpr (std::same_as<View, key_view>) return evidence_kind::keys;
  if constexpr (std::same_as<View, value_view>) return evidence_kind::values;
  if constexpr (std::same_as<View, hidden_view>) return evidence_kind::hidden;
  if constexpr (std::same_as<View, id_view>) return evidence_kind::ids;
  return evidence_kind::none;
}

/// The active tokens that it tells of.
inline std::span<const position> positions_of(const evidence& shown) {
  return std::visit(
      [](const auto& view) {
        if constexpr (requires { view.attention; })
          return view.attention.positions;
        else
          return view.positions;
      },
      shown);
}

/// What a scorer says it needs (core/concepts.hpp), as a value.
struct scorer_needs {
  evidence_kind kind;  // none: positions
  bool every_layer;    // after every layer but the last, and memory
  std::size_t window;  // queries of a window_view; else 0
  /// Of attention and windows: all that the scorer reads of the heads. A view of one head that holds it gives the same scores to rounding,
  /// so that an engine need not bring every head from where it computes. None: each head apart.
  std::optional<head_reduction> over_heads = std::nullopt;
};

}  // namespace v0
}  // namespace lazyprune
