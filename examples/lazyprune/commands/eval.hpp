// SPDX-License-Identifier: MIT
// lazyprune eval: answers a benchmark's questions with a model under a policy, scores the answers by the benchmark's own metrics, and
// measures what they cost. It can also score existing predictions.
#pragma once

#include <cstddef>
#include <string>

#include "commands/flags.hpp"
#include "questions/run_record.hpp"
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
  question_flags questions;  // if they name no data, `predictions` are scored
  policy_spec policy;
  std::string predictions;  // a file, scored without a model; empty: the questions are answered
  std::string method;       // the method's name in the result; empty: named after the policy, or the file of predictions
  std::string predicted;    // the file to write predictions to, or the folder of a part; empty: none
  table_format output = table_format::md;
  bool compare = false, resume = false;
  std::size_t jobs = 1;  // samples at a time
  part_flags parts{};
};

/// Prints the table of an eval, in which every sample has an answer.
void show_eval(const run_record& record, const found_prediction& find, table_format format);

/// Returns the exit code.
int eval(const eval_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
