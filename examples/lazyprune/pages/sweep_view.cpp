// SPDX-License-Identifier: MIT
#include "pages/sweep_view.hpp"

#include <functional>

#include "questions/known_tasks.hpp"
#include "tables/number_text.hpp"

#include <lazyprune/core/error.hpp>

namespace lazyprune {
namespace program {

const sweep_quantity score_quantity{"score", [](const eval_summary& s) { return std::optional(s.score); }, 1, 1, ""};
const sweep_quantity lost_quantity{"lost", [](const eval_summary& s) { return s.lost; }, 1, 1, ""};
const sweep_quantity ttft_quantity{"TTFT", [](const eval_summary& s) { return s.ttft_s; }, 1e3, 1, " ms"};
const sweep_quantity speedup_quantity{"TTFT speedup", [](const eval_summary& s) { return s.speedup_ttft; }, 1, 2, "x"};
const sweep_quantity computed_quantity{"computed", [](const eval_summary& s) { return s.share_computed; }, 100, 1, " %"};
const sweep_quantity generated_quantity{"generated tokens", [](const eval_summary& s) { return s.generated_tokens; }, 1, 1, ""};
const sweep_quantity overall_quantity{"overall speedup", [](const eval_summary& s) { return s.speedup_total; }, 1, 2, "x"};

namespace {

std::string interval_text(const sweep_quantity& q, const estimate& e) {
  return fixed(q.scale * e.ci95.low, q.digits) + (e.ci95.low < 0 ? " to " : "–") + fixed(q.scale * e.ci95.high, q.digits);
}

}  // namespace

std::string mean_text(const sweep_quantity& q, const estimate& e) { return fixed(q.scale * e.mean, q.digits).append(q.unit); }

std::string whole_text(const sweep_quantity& q, const estimate& e) { return mean_text(q, e) + " (" + interval_text(q, e) + ')'; }

std::string html_cell(const sweep_quantity& q, const std::optional<estimate>& e, bool bold) {
  if (!e) return "<td>–</td>";
  return std::string(bold ? "<td><b>" : "<td>") + mean_text(q, *e) + (bold ? "</b>" : "") + "<small>" + interval_text(q, *e) +
         "</small></td>";
}

sweep_view::sweep_view(const sweep_table& t) : table(t) {
  if (table.entries.empty()) throw error("", "sweep", "at least one entry", "none");
  for (const sweep_entry& entry : table.entries) {
    add_once(tasks, entry.summary.task);
    if (!entry.budget) continue;
    add_once(methods, entry.method);
    add_once(budgets, *entry.budget);
  }
  std::ranges::sort(budgets, std::greater{});
  for (const std::string& task : tasks) {
    const eval_task* known = find_known_task(task);
    const std::string name(known ? known->group : std::string_view(task));
    const auto found = std::ranges::find(groups, name, &group::name);
    (found != groups.end() ? *found : groups.emplace_back(group{name, {}})).tasks.push_back(task);
  }
}

const sweep_entry* sweep_view::find(std::string_view method, std::optional<double> budget, std::string_view task) const {
  const auto found = std::ranges::find_if(
      table.entries, [&](const sweep_entry& e) { return e.budget == budget && e.summary.task == task && (!budget || e.method == method); });
  return found != table.entries.end() ? &*found : nullptr;
}

std::optional<estimate> sweep_view::mean(const sweep_quantity& q, std::string_view method, std::optional<double> budget,
                                         const std::vector<std::string>& over) const {
  return mean_over(over, [&](const std::string& task) {
    const sweep_entry* entry = find(method, budget, task);
    return entry ? q.of(entry->summary) : std::nullopt;
  });
}

std::string_view name_in(std::string_view method) { return method.substr(0, method.find('@')); }

}  // namespace program
}  // namespace lazyprune
