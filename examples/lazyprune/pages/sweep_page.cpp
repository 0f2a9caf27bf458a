// SPDX-License-Identifier: MIT
#include "pages/sweep_page.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pages/html.hpp"
#include "pages/sweep_figures.hpp"
#include "pages/sweep_page_template.hpp"
#include "pages/sweep_tables.hpp"

#include <lazyprune/core/flag_text.hpp>

namespace lazyprune {
namespace program {

namespace {

/// Says how many samples were timed; empty if all were, or if nothing was timed.
std::string timed_text(const sweep_view& view) {
  std::uint64_t timed = 0, all = 0;
  for (const std::string& task : view.tasks) {
    const sweep_entry* dense = view.find("", std::nullopt, task);
    if (!dense || !dense->summary.timed) continue;
    timed += *dense->summary.timed;
    all += dense->summary.n;
  }
  return timed < all ? "over " + std::to_string(timed) + " of " + std::to_string(all) + " samples" : "";
}

}  // namespace

std::string sweep_page(const sweep_table& table) {
  const sweep_view view(table);
  std::string budgets;
  for (const double budget : view.budgets) budgets += (budgets.empty() ? "" : ", ") + text_of_number(budget);

  const std::string title = html_text("Token pruning on " + table.model + ": accuracy and speed");
  const std::string body = fill_in(sweep_page_body, {{"title", title},
                                                     {"facts", facts_list({{"model", table.model},
                                                                           {"layers", std::to_string(table.layers)},
                                                                           {"tasks", std::to_string(view.tasks.size())},
                                                                           {"methods", std::to_string(view.methods.size())},
                                                                           {"budgets", budgets},
                                                                           {"times", timed_text(view)}})},
                                                     {"tasks", task_table(view)},
                                                     {"methods", method_list(view)},
                                                     {"table1", group_table(view, score_quantity, speedup_quantity, true)},
                                                     {"table2", group_table(view, computed_quantity, overall_quantity, false)},
                                                     {"figure5", accuracy_figure(view)},
                                                     {"figure6", sensitivity_figure(view)},
                                                     {"figure7", usage_figure(view)},
                                                     {"settings", setting_table(view)},
                                                     {"results", result_table(view)}});
  return html_page(title, sweep_page_style, body);
}

std::string sweep_figure(const sweep_table& table) {
  const std::vector<chart> charts = accuracy_charts(sweep_view(table));
  return charts.empty() ? "" : svg_chart_with_legend(charts.front());
}

}  // namespace program
}  // namespace lazyprune
