// SPDX-License-Identifier: MIT
// Checks another engine's trace against a model, for `compare --against`.
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
  std::string text;  // a report of several lines
};

/// Checks the trace in `file`; see check_trace. Throws `error` if the trace or the model cannot be used.
replay_answer replay_against(const std::string& file, const opened_model& model, const policy_spec& policy, const policy_registry& policies,
                             bool force_plan, double tolerance);

}  // namespace program
}  // namespace lazyprune
