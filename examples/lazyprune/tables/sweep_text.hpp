// SPDX-License-Identifier: MIT
// A sweep written down: a table for people, CSV for programs.
#pragma once

#include <string>
#include <vector>

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/eval/rows_share.hpp>
#include "questions/method.hpp"
#include "tables/summary_text.hpp"
#include "tables/sweep_table.hpp"

namespace lazyprune {
inline namespace v0 {

/// As of summaries (eval/summary_text.hpp), with the method and its budget in two columns, and the policy's flags in one. The single stages
/// of the sensitivity follow, which are of fewer samples: first the dense model on those, as the method "dense (single stages)", then
/// single_stage@LAYER at the shares of rows that they are.
inline std::string to_csv(const sweep_table& table) {
  std::string out = "task,method,budget,policy," + detail::csv_keys() + '\n';
  const auto add = [&](const std::string& method, const std::optional<double>& budget, const std::string& policy, const eval_summary& s) {
    out += detail::csv_text(s.task) + ',' + detail::csv_text(method) + ',' + (budget ? text_of_number(*budget) : "") + ',' +
           detail::csv_text(policy) + ',' + detail::csv_values(s) + '\n';
  };
  for (const sweep_entry& entry : table.entries) add(entry.method, entry.budget, entry.policy, entry.summary);
  const auto layers = static_cast<layer_id>(table.layers);
  for (const eval_summary& dense : table.sensitivity_dense)
    add("dense (single stages)", {}, at_budget({"dense"}, {}, layers).description(layers), dense);
  for (const sensitivity_entry& entry : table.sensitivity) {
    const eval_setting setting = one_stage(entry.after, entry.share, layers);
    add(setting.method, setting.budget, setting.description(layers), entry.summary);
  }
  return out;
}

/// A table in Markdown, one line a setting and task, the sensitivity left out.
inline std::string to_markdown(const sweep_table& table) {
  std::vector<eval_summary> summaries;
  for (const sweep_entry& entry : table.entries) {
    summaries.push_back(entry.summary);
    summaries.back().method = entry.budget ? entry.method + ' ' + text_of_number(*entry.budget) : entry.method;
  }
  return to_markdown(summaries);
}

}  // namespace v0
}  // namespace lazyprune
