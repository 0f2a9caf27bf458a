// SPDX-License-Identifier: MIT
#include "commands/compare.hpp"

#include <iostream>

#include "models/sessions.hpp"
#include "traces/replay.hpp"

#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/files/trace_file.hpp>

namespace lazyprune {
namespace program {

int compare(const compare_flags& flags, const policy_registry& policies) {
  if (!flags.model.path.empty()) {
    const opened_model model(flags.model);
    const policy_spec policy = policy_with_note(flags.policy, model, policies).spec;
    const replay_answer answer = replay_against(flags.a, model, policy, policies, flags.force_plan, flags.tolerance);
    std::cout << answer.text;
    return answer.alike ? 0 : 2;
  }
  const auto comparison = compare_traces(read_trace(flags.a), read_trace(flags.b), flags.tolerance);
  std::cout << comparison.text();
  return comparison.alike ? 0 : 2;
}

}  // namespace program
}  // namespace lazyprune
