// SPDX-License-Identifier: MIT
// The results of a sweep over methods, budgets and tasks, and their tables.
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
  std::optional<double> budget;  // the share of the dense prefill's rows that the method may compute; nullopt: dense
  std::string policy;            // the pruning flags
  eval_summary summary;          // its speedups are relative to the dense entry of the same task
};

/// A single stage, as in the paper's Figure 6: keep `share` of the tokens after `after` layers.
struct sensitivity_entry {
  layer_id after;
  double share;
  std::string policy;  // the pruning flags
  eval_summary summary;
};

struct sweep_table {
  std::string model;  // the name of the model's directory
  std::size_t layers;
  std::vector<sweep_entry> entries;               // the dense entries first; each setting has one entry per task
  std::vector<sensitivity_entry> sensitivity{};   // empty: not run
  std::vector<eval_summary> sensitivity_dense{};  // the dense model on the samples of `sensitivity`, one per task
};

/// The table for JSON and CSV. The keys are those of tables/summary_table.hpp, with budget and policy (the pruning flags) after method. The
/// rows of the single stages come last and cover fewer samples. They begin with the dense model's rows for these samples, with the method
/// "dense (single stages)". The other rows have the method single_stage@LAYER. Their budget is the share of the dense prefill's rows that
/// the single stage computes.
table table_of(const sweep_table& sweep);

/// The Markdown table for people: one line per setting and task, without the single stages.
std::string to_markdown(const sweep_table& sweep);

}  // namespace program
}  // namespace lazyprune
