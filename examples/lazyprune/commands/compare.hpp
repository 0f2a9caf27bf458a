// SPDX-License-Identifier: MIT
// lazyprune compare: compares two traces of one input, or a trace with the results of a model.
#pragma once

#include <string>

#include "commands/flags.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct compare_flags {
  std::string a, b;
  model_flags model;  // the model to compare `a` with, instead of `b`; an empty path: none
  bool force_plan = false;
  policy_spec policy;
  double tolerance = 1e-4;
};

/// Returns the exit code: 0 if the two traces, or the trace and the model, agree; 2 if they differ.
int compare(const compare_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
