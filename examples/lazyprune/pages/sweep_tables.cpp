// SPDX-License-Identifier: MIT
#include "pages/sweep_tables.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "pages/html.hpp"
#include "questions/method.hpp"
#include "tables/number_text.hpp"

#include <lazyprune/core/flag_text.hpp>

namespace lazyprune {
namespace program {

std::string method_list(const sweep_view& view) {
  std::string html;
  for (const method_note& method : method_notes()) {
    const bool used = std::ranges::any_of(view.table.entries, [&](const sweep_entry& e) { return name_in(e.method) == method.name; });
    if (used) html.append("<dt>").append(method.name).append("</dt><dd>").append(method.note).append("</dd>\n");
  }
  return html;
}

std::string task_table(const sweep_view& view) {
  std::string html =
      "<div class=\"wide\"><table>\n<thead><tr><th>task</th><th>group</th><th>metric</th><th>samples</th><th>prompt tokens</th>"
      "<th>dense score</th><th>dense TTFT</th></tr></thead>\n<tbody>\n";
  for (const sweep_view::group& group : view.groups)
    for (const std::string& task : group.tasks) {
      const sweep_entry* dense = view.find("", std::nullopt, task);
      if (!dense) continue;
      const eval_summary& s = dense->summary;
      html += "<tr><th>" + html_text(task) + "</th><td class=\"text\">" + html_text(group.name) + "</td><td class=\"text\">" +
              html_text(s.metric) + "</td><td>" + std::to_string(s.n) + "</td><td>" +
              (s.prompt_tokens ? fixed(s.prompt_tokens->mean, 0) : "–") + "</td>" + html_cell(score_quantity, s.score) +
              html_cell(ttft_quantity, s.ttft_s) + "</tr>\n";
    }
  return html + "</tbody></table></div>\n";
}

std::string group_table(const sweep_view& view, const sweep_quantity& first, const sweep_quantity& second, bool mark) {
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th rowspan=\"2\">tasks</th><th rowspan=\"2\">method</th>", heads;
  for (const double budget : view.budgets) {
    html += "<th colspan=\"2\">budget " + text_of_number(budget) + "</th>";
    heads.append("<th>").append(first.head).append("</th><th>").append(second.head).append("</th>");
  }
  html += "</tr>\n<tr>" + heads + "</tr></thead>\n";
  std::vector<sweep_view::group> groups = view.groups;
  if (groups.size() > 1) groups.push_back({"All tasks", view.tasks});
  for (const sweep_view::group& group : groups) {
    const std::optional<estimate> dense = view.dense(first, group.tasks), dense_second = view.dense(second, group.tasks);
    html += "<tbody class=\"group\">\n<tr><th rowspan=\"" + std::to_string(view.methods.size() + 1) + "\">" + html_text(group.name) +
            "</th><th>dense</th><td class=\"all\" colspan=\"" + std::to_string(std::max<std::size_t>(2 * view.budgets.size(), 1)) + "\">" +
            (dense ? whole_text(first, *dense) : "–") + (dense_second ? ", " + mean_text(second, *dense_second) : "") + "</td></tr>\n";
    for (const std::string& method : view.methods) {
      html += "<tr><th>" + html_text(method) + "</th>";
      for (const double budget : view.budgets) {
        constexpr double rounding = 1e-9;
        const std::optional<estimate> lost = view.mean(lost_quantity, method, budget, group.tasks);
        html += html_cell(first, view.mean(first, method, budget, group.tasks), mark && lost && lost->ci95.low <= rounding);
        html += html_cell(second, view.mean(second, method, budget, group.tasks));
      }
      html += "</tr>\n";
    }
    html += "</tbody>\n";
  }
  return html + "</table></div>\n";
}

std::string setting_table(const sweep_view& view) {
  std::vector<std::string> rows;
  for (const sweep_entry& entry : view.table.entries)
    add_once(rows, "<tr><th>" + html_text(entry.method) + "</th><td>" + (entry.budget ? text_of_number(*entry.budget) : "–") +
                       "</td><td class=\"flags\"><code>" + html_text(entry.policy) + "</code></td></tr>\n");
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th>method</th><th>budget</th><th>flags</th></tr></thead>\n<tbody>\n";
  for (const std::string& row : rows) html += row;
  return html + "</tbody></table></div>\n";
}

std::string result_table(const sweep_view& view) {
  constexpr std::array<const sweep_quantity*, 7> quantities{&score_quantity,    &lost_quantity,    &ttft_quantity,     &speedup_quantity,
                                                            &computed_quantity, &overall_quantity, &generated_quantity};
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th>task</th><th>method</th><th>budget</th><th>n</th>";
  for (const sweep_quantity* q : quantities) html.append("<th>").append(q->head).append("</th>");
  html += "<th>rows revived</th><th>peak memory</th></tr></thead>\n<tbody>\n";
  const std::string none = "–";
  for (const sweep_entry& entry : view.table.entries) {
    const eval_summary& s = entry.summary;
    html += "<tr><th>" + html_text(s.task) + "</th><td class=\"text\">" + html_text(entry.method) + "</td><td>" +
            (entry.budget ? text_of_number(*entry.budget) : none) + "</td><td>" + std::to_string(s.n) + "</td>";
    for (const sweep_quantity* q : quantities) html += html_cell(*q, q->of(s));
    html += "<td>" + (s.revived ? fixed(s.revived->mean, 0) : none) + "</td><td>" +
            (s.peak_bytes ? fixed(static_cast<double>(*s.peak_bytes) / (1024.0 * 1024.0), 1) + " MiB" : none) + "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace program
}  // namespace lazyprune
