// SPDX-License-Identifier: MIT
// What a sweep over methods, budgets and tasks comes to, and how it is written down.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tables/table.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/eval/summary.hpp>

namespace lazyprune {
namespace program {

/// One setting on one task.
struct sweep_entry {
  std::string method;            // "lazyllm@3+5"
  std::optional<double> budget;  // the share of the dense prefill's rows that it may compute; none: dense
  std::string policy;            // the flags that make it
  eval_summary summary;          // its speedups are over the dense entry of the same task
};

/// One stage only, as in the paper's Figure 6: after so many layers keep that share.
struct sensitivity_entry {
  layer_id after;
  double share;
  std::string policy;  // the flags that make it
  eval_summary summary;
};

struct sweep_table {
  std::string model;  // its directory's name
  std::size_t layers;
  std::vector<sweep_entry> entries;               // dense first; task by task inside a setting
  std::vector<sensitivity_entry> sensitivity{};   // empty: not run
  std::vector<eval_summary> sensitivity_dense{};  // of the samples that `sensitivity` is of, one a task
};

/// The keys are those of summaries (tables/summary_table.hpp), with the method and its budget in two columns, and the policy's flags in
/// one. The single stages of the sensitivity follow, which are of fewer samples: first the dense model on those, as the method "dense
/// (single stages)", then single_stage@LAYER at the shares of rows that they are.
table table_of(const sweep_table& sweep);

/// The table for people has one line a setting and task, and leaves the sensitivity out.
std::string to_markdown(const sweep_table& sweep);

}  // namespace program
}  // namespace lazyprune
