// SPDX-License-Identifier: MIT
// Makes a session for a policy that was chosen at run time, by its text.
#pragma once

#include <utility>

#include <lazyprune/policy/schedule/at_least.hpp>
#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/prompt_sets.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/registry/policy_parts.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

inline any_schedule in_phase(any_schedule schedule, pruned_steps when) {
  if (when == pruned_steps::prefill) return prompt_only(std::move(schedule));
  if (when == pruned_steps::decode) return by_phase(stages{}, std::move(schedule));
  if (when == pruned_steps::prefill_sets) return prompt_sets(std::move(schedule));
  return schedule;
}

}  // namespace detail

/// The schedule of the parts, limited to the steps that `when` names and to sequences of at least `least_tokens` tokens. Moves the schedule
/// out of `parts`.
inline any_schedule whole_schedule(policy_parts& parts) {
  any_schedule schedule = detail::in_phase(std::move(parts.schedule), parts.when);
  if (parts.least_tokens == 0) return schedule;
  return at_least(std::move(schedule), parts.least_tokens);
}

/// A session of these parts. The caller may have changed the parts since they were read.
inline any_session make_session(policy_parts parts, const session_options& options) {
  any_schedule schedule = whole_schedule(parts);
  return any_session(
      policy{std::move(parts.scorer), std::move(schedule),
             protect(std::move(parts.selector), parts.keep_first, parts.keep_last, std::move(parts.keep)), std::move(parts.store)},
      options);
}

/// A session for a model with these layers; `options.layers` is ignored. Throws an `error` that names the wrong flag.
inline any_session make_session(const policy_spec& spec, const model_layers& layers, session_options options,
                                const policy_registry& policies) {
  options.layers = layers.count;
  return make_session(parts_of(spec, layers, policies), options);
}

/// A session for a model with `options.layers` layers that all see the same tokens.
inline any_session make_session(const policy_spec& spec, session_options options, const policy_registry& policies) {
  return make_session(spec, model_layers(options.layers), options, policies);
}

}  // namespace v0
}  // namespace lazyprune
