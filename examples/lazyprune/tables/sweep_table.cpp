// SPDX-License-Identifier: MIT
#include "tables/sweep_table.hpp"

#include <utility>

#include "questions/method.hpp"
#include "tables/summary_table.hpp"

#include <lazyprune/core/flag_text.hpp>

namespace lazyprune {
namespace program {

table table_of(const sweep_table& sweep) {
  table t{.columns = {{"task"}, {"method"}, {"budget"}, {"policy"}}, .rows = {}};
  for (column& c : summary_columns()) t.columns.push_back(std::move(c));
  const auto add = [&](const std::string& method, const std::optional<double>& budget, const std::string& policy, const eval_summary& s) {
    std::vector<cell>& row =
        t.rows.emplace_back(std::vector<cell>{s.task, method, budget ? cell(number_as_text{text_of_number(*budget)}) : cell(), policy});
    for (cell& value : summary_cells(s)) row.push_back(std::move(value));
  };
  for (const sweep_entry& entry : sweep.entries) add(entry.method, entry.budget, entry.policy, entry.summary);
  const auto layers = static_cast<layer_id>(sweep.layers);
  for (const eval_summary& dense : sweep.sensitivity_dense) add("dense (single stages)", {}, "--policy dense", dense);
  for (const sensitivity_entry& entry : sweep.sensitivity) {
    const eval_setting setting = one_stage(entry.after, entry.share, layers);
    add(setting.method, setting.budget, entry.policy, entry.summary);
  }
  return t;
}

std::string to_markdown(const sweep_table& sweep) {
  std::vector<eval_summary> summaries;
  for (const sweep_entry& entry : sweep.entries) {
    summaries.push_back(entry.summary);
    summaries.back().method = entry.budget ? entry.method + ' ' + text_of_number(*entry.budget) : entry.method;
  }
  return to_markdown(summaries);
}

}  // namespace program
}  // namespace lazyprune
