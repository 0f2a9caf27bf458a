// SPDX-License-Identifier: MIT
// A type for evidence of any kind, and a type for the needs of a scorer. Scorers that are chosen at run time use both.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <variant>

#include <lazyprune/core/head_reduction.hpp>
#include <lazyprune/core/views.hpp>

namespace lazyprune {
inline namespace v0 {

enum class evidence_kind : std::uint8_t { none, attention, window, keys, values, hidden, ids, probes };

constexpr std::string_view name_of(evidence_kind kind) {
  constexpr std::string_view names[] = {"no evidence", "attention", "a window of queries", "keys", "values", "hidden states",
                                        "ids",         "probes"};
  return names[static_cast<std::size_t>(kind)];
}

/// Evidence of any kind. The alternatives are in the order of evidence_kind. `evidence{}`, an empty token_view, stands for no evidence. The
/// engine never has to show a token_view, because the session knows the positions itself.
using evidence = std::variant<token_view, attention_view, window_view, key_view, value_view, hidden_view, id_view, probe_view>;

/// The kind of evidence that the engine has to deliver for this view.
template <class View>
constexpr evidence_kind kind_of() {
  if constexpr (std::same_as<View, attention_view>) return evidence_kind::attention;
  if constexpr (std::same_as<View, window_view>) return evidence_kind::window;
  if constexpr (std::same_as<View, key_view>) return evidence_kind::keys;
  if constexpr (std::same_as<View, value_view>) return evidence_kind::values;
  if constexpr (std::same_as<View, hidden_view>) return evidence_kind::hidden;
  if constexpr (std::same_as<View, id_view>) return evidence_kind::ids;
  if constexpr (std::same_as<View, probe_view>) return evidence_kind::probes;
  return evidence_kind::none;
}

/// The positions of the active tokens in this evidence.
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

/// The needs of a scorer (core/concepts.hpp), as a value.
struct scorer_needs {
  evidence_kind kind;  // `none` if positions are enough
  bool every_layer;    // whether the scorer needs evidence after every layer but the last, and memory; but see of_one_step
  std::size_t window;  // number of queries of a window_view or probe_view; 0 for other views
  /// For attention and windows: `mean` or `max` if the scorer reads only the mean or only the maximum over the heads. An engine may then
  /// show one head that holds this mean or maximum, and need not copy every head from its device. The scores are the same up to rounding.
  /// Without a value the scorer reads each head.
  std::optional<head_reduction> over_heads = std::nullopt;
  /// True if the scores of a step depend on the evidence of this step alone. The engine then shows nothing after the last layer at which
  /// the schedule could prune by scores in this step.
  bool of_one_step = false;
  /// True if the score of a token is its number in the row that `over_heads` makes. An engine can then choose tokens by this row itself
  /// (step::quota).
  bool row_is_score = false;
};

}  // namespace v0
}  // namespace lazyprune
