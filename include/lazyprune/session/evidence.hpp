// SPDX-License-Identifier: MIT
// The kinds of evidence a scorer can ask for, as a value: what crosses the one erased boundary (any_session).
#pragma once

#include <concepts>
#include <variant>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

enum class evidence_kind : std::uint8_t { none, attention, window, keys, values, hidden };

/// Evidence of any kind. The order is that of evidence_kind; positions (token_view) the session knows by itself.
using evidence = std::variant<std::monostate, attention_view, window_view, key_view, value_view, hidden_view>;

/// What the engine has to deliver for this view.
template <class View>
constexpr evidence_kind kind_of() {
  if constexpr (std::same_as<View, attention_view>) return evidence_kind::attention;
  if constexpr (std::same_as<View, window_view>) return evidence_kind::window;
  if constexpr (std::same_as<View, key_view>) return evidence_kind::keys;
  if constexpr (std::same_as<View, value_view>) return evidence_kind::values;
  if constexpr (std::same_as<View, hidden_view>) return evidence_kind::hidden;
  return evidence_kind::none;
}

}  // namespace v0
}  // namespace lazyprune
