// SPDX-License-Identifier: MIT
// lazyprune sweep: compares methods at budgets on a benchmark's questions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "commands/flags.hpp"
#include "questions/method.hpp"
#include "questions/run_record.hpp"
#include "tables/table.hpp"

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct sweep_flags {
  model_flags model;
  backend_flags backend;
  question_flags questions;
  method_flags methods{.names = {"lazyllm", "static", "random", "compression"}};
  kept_tokens kept;
  std::size_t seeds = 5;        // runs of each method that draws at random
  std::size_t timed = 0;        // samples of each file whose times are measured; 0: all
  std::size_t sensitivity = 0;  // samples of each file that are also answered with single stages; 0: none
  double minutes = 0;           // after this time no sample is begun, except the first; 0: no limit
  std::string directory;        // the folder for the results
  bool resume = false;
  part_flags parts{};
};

/// Writes the table, the page and the figure of a sweep into its folder, and prints the table. Samples without answers are left out: `find`
/// returns null for all of their asks.
void show_sweep(const run_record& record, const found_prediction& find, const std::string& directory,
                table_format format = table_format::md);

/// Returns the exit code.
int sweep(const sweep_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
