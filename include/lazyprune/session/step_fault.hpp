// SPDX-License-Identifier: MIT
// The faults of an engine or a policy in a step. Calls inside a step do not throw. The session therefore notes the first fault, and
// `finish` reports it. No fault makes the session drop a token.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/evidence.hpp>
#include <lazyprune/session/engine_choice.hpp>
#include <lazyprune/session/finite_evidence.hpp>
#include <lazyprune/session/index_fault.hpp>

namespace lazyprune {
inline namespace v0 {

/// The evidence did not come, or has another kind or size.
struct missed_evidence {
  evidence_kind wanted, came;
};

/// The evidence has a number that is not finite.
struct wrong_evidence {
  evidence_kind kind;
  number_not_finite number;
};

/// A selector or a store wrote a wrong list.
struct wrong_indices {
  std::string_view by;  // "selector" or "store"
  index_fault fault;
};

/// A schedule prunes after fewer layers than its `first` says, or after a layer that its `prunes_after` denies. Chunks of the prompt have
/// then already run too many layers, or the scores lack evidence.
struct denied_pruning {
  std::optional<layer_id> first;  // not set if it is `prunes_after` that denies
};

/// The engine chose wrong tokens.
struct wrong_choice {
  choice_fault why;
};

/// The first fault of a step. It happened with `done` layers done.
struct step_fault {
  layer_id done;
  std::variant<missed_evidence, wrong_evidence, wrong_indices, denied_pruning, wrong_choice> what;
};

/// The error to report: wrong_order if the wanted evidence did not come, or if a choice came where none was to be made; else bad_input.
inline error error_of(const step_fault& fault) {
  const auto session_error = [](const std::string& expected, const std::string& found, error_code code = error_code::bad_input) {
    return error("session", "finish", expected, found, code);
  };
  const std::string place = fault.done == 0 ? "before layer 0" : "after layer " + std::to_string(fault.done - 1);
  if (const auto* missed = std::get_if<missed_evidence>(&fault.what))
    return session_error("leave() of layer " + std::to_string(fault.done - 1) + " with " + std::string(name_of(missed->wanted)),
                         missed->came == missed->wanted ? "another number of tokens or queries" : std::string(name_of(missed->came)),
                         error_code::wrong_order);
  if (const auto* wrong = std::get_if<wrong_evidence>(&fault.what))
    return session_error("finite numbers in the evidence " + place + " (" + std::string(name_of(wrong->kind)) + ")",
                         std::to_string(wrong->number.value) + " for the token at position " + std::to_string(wrong->number.token));
  if (const auto* wrong = std::get_if<wrong_indices>(&fault.what))
    return session_error(
        "ascending indices below " + std::to_string(wrong->fault.below) + " from the " + std::string(wrong->by) + " " + place,
        wrong->fault.found());
  if (const auto* choice = std::get_if<wrong_choice>(&fault.what)) return error_of(choice->why, fault.done, "finish");
  const auto& first = std::get<denied_pruning>(fault.what).first;
  return session_error(first ? "a schedule that prunes nothing before " + std::to_string(*first) + " layers are done, as its `first` says"
                             : "a schedule that prunes only where its `prunes_after` says",
                       "pruning " + place);
}

}  // namespace v0
}  // namespace lazyprune
