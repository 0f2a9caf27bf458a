// SPDX-License-Identifier: MIT
// lazyprune eval: what a model under a policy answers to a benchmark's questions, what the answers score by the benchmark's own metrics,
// and what they cost. Or what predictions that exist score.
#pragma once

#include <cstddef>
#include <string>

#include "commands/flags.hpp"
#include "tables/table.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct eval_flags {
  model_flags model;
  backend_flags backend;
  question_flags questions;  // no data: predictions
  policy_spec policy;
  std::string predictions;  // scored without a model; empty: data
  std::string method;       // in the result; empty: the policy, or the predictions' file
  std::string predicted;    // where predictions go; empty: nowhere
  table_format output = table_format::md;
  bool compare = false, resume = false;
  std::size_t jobs = 1;  // samples at once
};

/// Returns the exit code.
int eval(const eval_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
