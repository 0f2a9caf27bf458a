// SPDX-License-Identifier: MIT
// A trace of another engine on a model of ours: what `compare --against` says of it.
#pragma once

#include <string>

#include "models/model_choice.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct replay_answer {
  bool alike;
  std::string text;  // lines for people
};

/// `file`: the trace's. See lazyprune::check_trace.
replay_answer replay_against(const std::string& file, const opened_model& model, const policy_spec& policy, const policy_registry& policies,
                             bool force_plan, double tolerance);

}  // namespace program
}  // namespace lazyprune
