// SPDX-License-Identifier: MIT
#include "pages/sweep_figures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "pages/html.hpp"
#include "tables/number_text.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
namespace program {
namespace {

/// The minimum and maximum of the finite values that were added.
struct chart_range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void add(const std::optional<chart_level>& level) {
    if (!level) return;
    for (const double value : {level->y, level->low, level->high}) add(value);
  }
  bool empty() const { return low > high; }
};

std::optional<chart_level> dense_level(const std::optional<estimate>& score) {
  if (!score) return std::nullopt;
  return chart_level{"dense, and its interval", score->mean, score->ci95.low, score->ci95.high};
}

std::string chart_figure(const chart& c, const std::string& below = "") {
  return "<figure><figcaption>" + html_text(c.name) + "</figcaption>\n" + svg_chart(c) + below + "</figure>\n";
}

}  // namespace

chart_axis score_axis(std::string label, double low, double high) {
  const double middle = std::clamp((low + high) / 2, 5.0, 95.0);
  return axis_over(std::move(label), std::min(low, middle - 5), std::max(high, middle + 5));
}

namespace {

/// Returns the tasks for which a speedup was measured.
std::vector<std::string> timed_tasks(const sweep_view& view) {
  std::vector<std::string> timed;
  for (const sweep_entry& entry : view.table.entries)
    if (entry.summary.speedup_ttft) add_once(timed, entry.summary.task);
  return timed;
}

}  // namespace

std::vector<chart> accuracy_charts(const sweep_view& view) {
  const std::vector<std::string> timed = timed_tasks(view);
  std::vector<sweep_view::group> shown;
  if (timed.size() > 1) shown.push_back({timed.size() == view.tasks.size() ? "all tasks" : "all tasks with times", timed});
  for (const std::string& task : timed) shown.push_back({task, {task}});
  chart_range speedups;
  std::vector<chart> charts;
  for (const auto& [name, tasks] : shown) {
    const std::optional<chart_level> level = dense_level(view.dense(score_quantity, tasks));
    chart_range scores;
    scores.add(level);
    std::vector<chart_series> series;
    for (std::size_t m = 0; m < view.methods.size(); ++m) {
      chart_series& line = series.emplace_back(chart_series{view.methods[m], m, {}});
      for (const double budget : view.budgets) {
        const std::optional<estimate> score = view.mean(score_quantity, line.name, budget, tasks);
        const std::optional<estimate> speedup = view.mean(speedup_quantity, line.name, budget, tasks);
        if (!score || !speedup) continue;
        line.points.push_back({speedup->mean, score->mean,
                               line.name + ", budget " + text_of_number(budget) + ": score " + whole_text(score_quantity, *score) +
                                   ", TTFT " + whole_text(speedup_quantity, *speedup)});
        speedups.add(speedup->mean);
        scores.add(score->mean);
      }
    }
    if (scores.empty()) continue;
    chart& drawn = charts.emplace_back();  // the x axis is set below: all charts share it
    drawn.name = name;
    drawn.y = score_axis("score", scores.low, scores.high);
    drawn.series = std::move(series);
    drawn.level = level;
  }
  if (speedups.empty()) return {};
  speedups.add(1.0);
  for (chart& c : charts) c.x = axis_over("TTFT speedup", speedups.low, speedups.high);
  return charts;
}

std::string accuracy_figure(const sweep_view& view) {
  const std::vector<chart> charts = accuracy_charts(view);
  if (charts.empty()) return "<p>Not drawn: no speedup was measured.</p>\n";
  std::string html =
      "<p>One chart per task, one line per method, one mark per budget. Higher is more accurate, further right is faster. If the paper's "
      "claim holds for a method, its line stays in the grey band as it goes right. The horizontal line is the dense model, at 1x; the band "
      "is its interval. The paper's figure shows Llama 2 7B on six tasks. Its text gives 2.34x on Multi-Doc QA at a loss of at most "
      "1&nbsp;%, and 3x at a loss of at most 10&nbsp;%. The axes of scores need not begin at 0. The numbers are under "
      "<a href=\"#results\">All results</a> and in each mark's tooltip.</p>\n" +
      chart_legend(charts.front().series, charts.front().level) + "<div class=\"charts\">\n";
  for (const chart& c : charts) html += chart_figure(c);
  html += "</div>\n";
  const std::vector<std::string> timed = timed_tasks(view);
  std::string untimed;
  for (const std::string& task : view.tasks)
    if (std::ranges::find(timed, task) == timed.end()) untimed += (untimed.empty() ? "" : ", ") + html_text(task);
  return untimed.empty() ? html : html + "<p>Not drawn, because no speedup was measured: " + untimed + ".</p>\n";
}

namespace {

/// The results of the single stages: mean scores over tasks, by layer and by share kept.
struct sensitivity_view {
  const sweep_table& table;
  std::vector<std::string> tasks;
  std::vector<layer_id> layers;  // ascending
  std::vector<double> shares;    // descending

  explicit sensitivity_view(const sweep_table& t) : table(t) {
    for (const sensitivity_entry& entry : table.sensitivity) {
      add_once(tasks, entry.summary.task);
      add_once(layers, entry.after);
      add_once(shares, entry.share);
    }
    std::ranges::sort(layers);
    std::ranges::sort(shares, std::greater{});
  }

  std::optional<estimate> score(layer_id after, double share) const {
    return mean_over(tasks, [&](const std::string& task) -> std::optional<estimate> {
      const auto found = std::ranges::find_if(
          table.sensitivity, [&](const sensitivity_entry& e) { return e.after == after && e.share == share && e.summary.task == task; });
      return found != table.sensitivity.end() ? std::optional(found->summary.score) : std::nullopt;
    });
  }

  std::optional<estimate> dense_score() const {
    return mean_over(tasks, [&](const std::string& task) -> std::optional<estimate> {
      const auto found = std::ranges::find(table.sensitivity_dense, task, &eval_summary::task);
      return found != table.sensitivity_dense.end() ? std::optional(found->score) : std::nullopt;
    });
  }
};

std::string name_of_share(double share) { return fixed(100 * share, 0) + " % kept"; }

std::vector<chart_series> lines_of(const sensitivity_view& view) {
  std::vector<chart_series> lines;
  for (const double share : view.shares) {
    chart_series& line = lines.emplace_back(chart_series{name_of_share(share), lines.size(), {}});
    for (const layer_id after : view.layers)
      if (const auto score = view.score(after, share))
        line.points.push_back({static_cast<double>(after), score->mean,
                               line.name + " after layer " + std::to_string(after) + ": " + whole_text(score_quantity, *score)});
  }
  return lines;
}

std::string table_of(const sensitivity_view& view) {
  std::string head, rows = "<tr><th>dense</th>";
  for (const layer_id after : view.layers) {
    head += "<th>after " + std::to_string(after) + "</th>";
    rows += html_cell(score_quantity, view.dense_score());
  }
  rows += "</tr>\n";
  for (const double share : view.shares) {
    rows += "<tr><th>" + name_of_share(share) + "</th>";
    for (const layer_id after : view.layers) rows += html_cell(score_quantity, view.score(after, share));
    rows += "</tr>\n";
  }
  return "<div class=\"wide\"><table>\n<thead><tr><th>score</th>" + head + "</tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n";
}

}  // namespace

std::string sensitivity_figure(const sweep_view& whole) {
  if (whole.table.sensitivity.empty()) return "<p>Not run: <code>--sensitivity</code> was not asked for.</p>\n";
  const sensitivity_view view(whole.table);
  const std::vector<chart_series> lines = lines_of(view);
  const std::optional<chart_level> level = dense_level(view.dense_score());
  chart_range scores;
  scores.add(level);
  for (const chart_series& line : lines)
    for (const chart_point& point : line.points) scores.add(point.y);

  std::string html = "<p>Each run prunes once, after one layer (across), to one share of the prompt's tokens (lines). Mean score over " +
                     std::to_string(view.tasks.size()) + (view.tasks.size() == 1 ? " task" : " tasks") +
                     ". If a line rises to the right, later layers can be pruned harder. The paper's figure shows this for 10, 30, 50, 70 "
                     "and 90 % kept in Llama 2 7B and XGen 7B. The grey band is the dense model's interval on the same prompts.</p>\n";
  if (!scores.empty()) {
    const auto first = static_cast<double>(view.layers.front()), last = static_cast<double>(view.layers.back());
    const chart drawn{"Pruned once, after one layer", axis_over("layers computed before it prunes", first, last, 1),
                      score_axis("mean score", scores.low, scores.high), lines, level};
    html += chart_legend(lines, level) + "<div class=\"charts\">\n" + chart_figure(drawn) + "</div>\n";
  }
  return html + table_of(view);
}

namespace {

/// Returns the shares of the prompt's tokens that each layer has computed at points of the generation, as means over tasks: (points,
/// layers). Empty if these shares are not known for one of the tasks.
std::vector<std::vector<double>> mean_usage(const sweep_view& view, std::string_view method, double budget) {
  std::vector<std::vector<double>> mean;
  for (const std::string& task : view.tasks) {
    const sweep_entry* entry = view.find(method, budget, task);
    if (!entry || entry->summary.usage.size() < 2) return {};
    const std::vector<std::vector<double>>& usage = entry->summary.usage;
    if (mean.empty()) mean.assign(usage.size(), std::vector<double>(view.table.layers));
    if (usage.size() != mean.size()) return {};
    for (std::size_t p = 0; p < mean.size(); ++p) {
      if (usage[p].size() != view.table.layers) return {};
      for (std::size_t l = 0; l < view.table.layers; ++l) mean[p][l] += usage[p][l] / static_cast<double>(view.tasks.size());
    }
  }
  return mean;
}

/// Returns the first layer after the stage that begins at layer `begin`. At every point, all layers of a stage have computed the same share
/// of the tokens.
std::size_t end_of_stage(const std::vector<std::vector<double>>& usage, std::size_t begin, std::size_t layers) {
  std::size_t end = begin + 1;
  const auto alike = [&](const std::vector<double>& shares) { return std::abs(shares[end] - shares[begin]) < 1e-9; };
  while (end < layers && std::ranges::all_of(usage, alike)) ++end;
  return end;
}

/// The chart of one setting, and the setting's rows of the table: one per stage.
struct usage_of_setting {
  chart drawn;
  std::string head, rows;

  usage_of_setting(const std::string& setting, const std::vector<std::vector<double>>& usage, std::size_t layers)
      : drawn{setting, axis_over("% of the generated tokens", 0, 100), axis_over("% of the prompt's tokens", 0, 100), {}, {}} {
    const auto progress = [&](std::size_t p) { return 100.0 * static_cast<double>(p) / static_cast<double>(usage.size() - 1); };
    for (std::size_t p = 0; p < usage.size(); ++p) head += "<th>" + fixed(progress(p), 0) + " %</th>";
    for (std::size_t begin = 0, end; begin < layers; begin = end) {
      end = end_of_stage(usage, begin, layers);
      const std::string first = std::to_string(begin + 1), last = std::to_string(end);
      const std::string stage = end == begin + 1 ? "layer " + last : "layers " + first + "–" + last;
      chart_series& line = drawn.series.emplace_back(chart_series{stage, drawn.series.size(), {}});
      rows += "<tr><td class=\"text\">" + html_text(setting) + "</td><td class=\"text\">" + stage + "</td>";
      for (std::size_t p = 0; p < usage.size(); ++p) {
        const std::string share = fixed(100 * usage[p][begin], 1);
        line.points.push_back({progress(p), 100 * usage[p][begin],
                               stage + " after " + fixed(progress(p), 0) + " % of the generated tokens: " + share + " %"});
        rows += "<td>" + share + "</td>";
      }
      rows += "</tr>\n";
    }
  }
};

}  // namespace

std::string usage_figure(const sweep_view& view) {
  std::string charts, head, rows;
  for (const std::string& method : view.methods) {
    if (name_in(method) != "lazyllm") continue;
    for (const double budget : view.budgets) {
      const std::vector<std::vector<double>> usage = mean_usage(view, method, budget);
      if (usage.empty()) continue;
      const usage_of_setting shown(method + ", budget " + text_of_number(budget), usage, view.table.layers);
      charts += chart_figure(shown.drawn, chart_legend(shown.drawn.series));
      head = shown.head;
      rows += shown.rows;
    }
  }
  if (charts.empty()) return "<p>Not drawn: no run of lazyllm recorded which tokens it had computed at each step.</p>\n";
  return "<p>A stage is the layers between two prunings. Each line shows the share of the prompt's tokens that a stage has computed so "
         "far; mean over tasks. The first stage reads the whole prompt. The line of a later stage begins at the share that the prefill "
         "computes, and rises by the tokens that come back. If it ends below 100&nbsp;%, the rest was never needed. The paper's figure "
         "shows four stages of Llama 2 7B (layers 1–9, 10–19, 20–28, 29–32) over 1,000 LongBench prompts.</p>\n<div class=\"charts\">\n" +
         charts + "</div>\n<div class=\"wide\"><table>\n<thead><tr><th>setting</th><th>stage</th>" + head + "</tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n";
}

}  // namespace program
}  // namespace lazyprune
