// SPDX-License-Identifier: MIT
// A session for a policy that was chosen at run time. Apart from policy_spec.hpp, since it instantiates every kind of session: include it
// in one translation unit of a program.
#pragma once

#include <lazyprune/policy/schedule/by_phase.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {

/// Throws `error` with the flag that is wrong. Only the kinds of evidence and whether the schedule sees scores make sessions of different
/// types: the rest is chosen inside.
inline any_session make_session(const policy_spec& spec, session_options options) {
  const policy_parts parts = parts_of(spec, options.layers);
  const protect<selector_choice> selector(parts.selector, parts.keep_first, parts.keep_last);
  return std::visit(
      [&](const auto& scorer, const auto& schedule) {
        using plain = std::remove_cvref_t<decltype(schedule)>;
        using decode_only = by_phase<stages, plain>;
        using when = one_of<plain, prompt_only<plain>, decode_only>;
        const auto phased = [&]() -> when {
          if (parts.when == pruned_steps::prefill) return prompt_only<plain>(schedule);
          if (parts.when == pruned_steps::decode) return decode_only(stages{}, schedule);
          return schedule;
        };
        return any_session(policy{scorer, phased(), selector, parts.store}, options);
      },
      parts.scorer, parts.schedule);
}

}  // namespace v0
}  // namespace lazyprune
