// SPDX-License-Identifier: MIT
// A sweep as one HTML page that needs nothing else: Tables 1 and 2 and Figures 5, 6 and 7 of LazyLLM's paper (arXiv 2407.14057), from
// one's own runs. Charts are SVG, without script; every number in them stands in a table too.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/eval/estimate.hpp>
#include <lazyprune/eval/summary.hpp>
#include <lazyprune/eval/tasks.hpp>
#include "pages/html.hpp"
#include "pages/page_style.hpp"
#include "pages/svg_chart.hpp"
#include "pages/sweep_page_template.hpp"
#include "tables/fixed_text.hpp"
#include "tables/sweep_table.hpp"

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// What a method does, for those who know only the paper.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 12> method_notes{{
    {"dense", "the model as it is; the paper's baseline."},
    {"lazyllm", "the paper's method: prunes at several layers, and a pruned token can come back at a later step."},
    {"no_revival", "lazyllm, but what is pruned is lost: shows what coming back is worth."},
    {"dense_decode", "lazyllm in the prefill only; the first step after it computes all that was left out."},
    {"static", "prunes once, after one early layer; what is pruned is lost. The paper's static token pruning."},
    {"random",
     "drops tokens at random before the first layer; of several draws each sample counts once, by their mean. The paper's random token "
     "drop."},
    {"compression",
     "the same model first reads the prompt and leaves out the tokens of its context that it could predict best (Selective Context); "
     "instruction and question stay, where the task tells them from the context (RULER does not). Its times include that dense pass, its "
     "share of rows computed does not. The paper's prompt compression."},
    {"streaming", "keeps the first four tokens and the last ones (StreamingLLM)."},
    {"snapkv", "a dense prefill; then steps see only what the prompt's last tokens attend to (after SnapKV)."},
    {"h2o",
     "a dense prefill; then steps see only what the prompt's last token and the generated ones attended to most, and the last tokens "
     "(after "
     "H2O, which counts the attention of every token of the prompt)."},
    {"fastkv", "selects once, early, by what the last tokens attend to; the rest is lost (after FastKV)."},
    {"gemfilter", "selects once, early, by what the last token attends to; the rest is lost (after GemFilter)."},
}};

/// What is shown of a summary.
struct sweep_quantity {
  std::string_view head;
  std::optional<estimate> (*of)(const eval_summary&);
  double scale;
  int digits;
  std::string_view unit;
};

inline const sweep_quantity score_quantity{"score", [](const eval_summary& s) { return std::optional(s.score); }, 1, 1, ""};
inline const sweep_quantity lost_quantity{"lost", [](const eval_summary& s) { return s.lost; }, 1, 1, ""};
inline const sweep_quantity ttft_quantity{"TTFT", [](const eval_summary& s) { return s.ttft_s; }, 1e3, 1, " ms"};
inline const sweep_quantity speedup_quantity{"TTFT speedup", [](const eval_summary& s) { return s.speedup_ttft; }, 1, 2, "x"};
inline const sweep_quantity computed_quantity{"computed", [](const eval_summary& s) { return s.share_computed; }, 100, 1, " %"};
inline const sweep_quantity generated_quantity{"generated tokens", [](const eval_summary& s) { return s.generated_tokens; }, 1, 1, ""};
inline const sweep_quantity overall_quantity{"overall speedup", [](const eval_summary& s) { return s.speedup_total; }, 1, 2, "x"};

inline std::string mean_text(const sweep_quantity& q, const estimate& e) { return fixed_text(q.scale * e.mean, q.digits).append(q.unit); }

inline std::string interval_text(const sweep_quantity& q, const estimate& e) {
  return fixed_text(q.scale * e.ci95.low, q.digits) + (e.ci95.low < 0 ? " to " : "–") + fixed_text(q.scale * e.ci95.high, q.digits);
}

inline std::string whole_text(const sweep_quantity& q, const estimate& e) { return mean_text(q, e) + " (" + interval_text(q, e) + ')'; }

/// A cell of a table; a dash where there is nothing to show.
inline std::string cell_of(const sweep_quantity& q, const std::optional<estimate>& e, bool bold = false) {
  if (!e) return "<td>–</td>";
  return std::string(bold ? "<td><b>" : "<td>") + mean_text(q, *e) + (bold ? "</b>" : "") + "<small>" + interval_text(q, *e) +
         "</small></td>";
}

/// A sweep's entries in order: what there is of each kind, and where an entry stands.
struct sweep_view {
  struct group {
    std::string name;
    std::vector<std::string> tasks;
  };
  const sweep_table& table;
  std::vector<std::string> tasks, methods;  // methods: the dense one is none
  std::vector<double> budgets;              // mild to harsh
  std::vector<group> groups;

  explicit sweep_view(const sweep_table& t) : table(t) {
    if (table.entries.empty()) throw error("", "sweep", "at least one entry", "none");
    for (const sweep_entry& entry : table.entries) {
      add(tasks, entry.summary.task);
      if (!entry.budget) continue;
      add(methods, entry.method);
      add(budgets, *entry.budget);
    }
    std::ranges::sort(budgets, std::greater{});
    for (const std::string& task : tasks) {
      const eval_task* known = find_task(task);
      const std::string name(known ? known->group : std::string_view(task));
      const auto found = std::ranges::find(groups, name, &group::name);
      (found != groups.end() ? *found : groups.emplace_back(group{name, {}})).tasks.push_back(task);
    }
  }

  /// Null where there is none. The dense entries have no budget, whatever `method` says.
  const sweep_entry* find(std::string_view method, std::optional<double> budget, std::string_view task) const {
    const auto found = std::ranges::find_if(table.entries, [&](const sweep_entry& e) {
      return e.budget == budget && e.summary.task == task && (!budget || e.method == method);
    });
    return found != table.entries.end() ? &*found : nullptr;
  }

  std::optional<estimate> mean(const sweep_quantity& q, std::string_view method, std::optional<double> budget,
                               const std::vector<std::string>& over) const {
    return mean_over(over, [&](const std::string& task) {
      const sweep_entry* entry = find(method, budget, task);
      return entry ? q.of(entry->summary) : std::nullopt;
    });
  }
  std::optional<estimate> dense(const sweep_quantity& q, const std::vector<std::string>& over) const {
    return mean(q, "", std::nullopt, over);
  }

  template <class T>
  static void add(std::vector<T>& list, const T& value) {
    if (std::ranges::find(list, value) == list.end()) list.push_back(value);
  }
};

inline std::string_view name_in(std::string_view method) { return method.substr(0, method.find('@')); }

inline std::string method_list(const sweep_view& view) {
  std::string html;
  for (const auto& note : method_notes) {
    const bool used = std::ranges::any_of(view.table.entries, [&](const sweep_entry& e) { return name_in(e.method) == note.first; });
    if (used) html.append("<dt>").append(note.first).append("</dt><dd>").append(note.second).append("</dd>\n");
  }
  return html;
}

inline std::string task_table(const sweep_view& view) {
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
              (s.prompt_tokens ? fixed_text(s.prompt_tokens->mean, 0) : "–") + "</td>" + cell_of(score_quantity, s.score) +
              cell_of(ttft_quantity, s.ttft_s) + "</tr>\n";
    }
  return html + "</tbody></table></div>\n";
}

/// Groups of tasks and methods down, budgets across, two quantities each. Bold, if asked for: the first one of a setting whose loss has an
/// interval that reaches 0.
inline std::string group_table(const sweep_view& view, const sweep_quantity& first, const sweep_quantity& second, bool mark) {
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
        html += cell_of(first, view.mean(first, method, budget, group.tasks), mark && lost && lost->ci95.low <= rounding);
        html += cell_of(second, view.mean(second, method, budget, group.tasks));
      }
      html += "</tr>\n";
    }
    html += "</tbody>\n";
  }
  return html + "</table></div>\n";
}

/// Of scores: at least ten points, so that noise does not look like more than it is.
inline chart_axis score_axis(std::string label, double low, double high) {
  const double middle = std::clamp((low + high) / 2, 5.0, 95.0);
  return axis_over(std::move(label), std::min(low, middle - 5), std::max(high, middle + 5));
}

/// The least and the greatest of what is finite.
struct chart_range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
  void add(const std::optional<chart_level>& level) {
    if (level) add(level->y), add(level->low), add(level->high);
  }
  bool empty() const { return low > high; }
};

inline std::optional<chart_level> dense_level(const std::optional<estimate>& score) {
  if (!score) return std::nullopt;
  return chart_level{"dense, and its interval", score->mean, score->ci95.low, score->ci95.high};
}

inline std::string chart_figure(const chart& c, const std::string& below = "") {
  return "<figure><figcaption>" + html_text(c.name) + "</figcaption>\n" + svg_chart(c) + below + "</figure>\n";
}

/// One a task, one line a method through its budgets; first that of their means. None where no speedup was measured.
inline std::vector<chart> accuracy_charts(const sweep_view& view) {
  std::vector<sweep_view::group> shown;
  if (view.tasks.size() > 1) shown.push_back({"all tasks", view.tasks});
  for (const std::string& task : view.tasks) shown.push_back({task, {task}});
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
    chart& drawn = charts.emplace_back();  // its x axis is that of all, below
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

inline std::string accuracy_figure(const sweep_view& view) {
  const std::vector<chart> charts = accuracy_charts(view);
  if (charts.empty()) return "<p>Not drawn: no speedup was measured.</p>\n";
  std::string html =
      "<p>One chart a task, one line a method, one mark a budget. Higher is more accurate, further right is faster: a method that keeps "
      "what the "
      "paper claims stays in the grey band as it goes right. The horizontal line is the dense model, at 1x; the band is its interval. The "
      "paper's figure shows Llama 2 7B on six tasks; its text gives 2.34x on Multi-Doc QA at a loss of at most 1&nbsp;%, and 3x at a "
      "loss "
      "of at "
      "most 10&nbsp;%. Axes of scores need not begin at 0. The numbers stand under <a href=\"#results\">All results</a>, and in each "
      "mark's "
      "tooltip.</p>\n" +
      chart_legend(charts.front().series, charts.front().level) + "<div class=\"charts\">\n";
  for (const chart& c : charts) html += chart_figure(c);
  return html + "</div>\n";
}

/// One line a share kept, over the layers after which it is kept; scores are means over tasks.
inline std::string sensitivity_figure(const sweep_view& view) {
  const std::vector<sensitivity_entry>& entries = view.table.sensitivity;
  if (entries.empty()) return "<p>Not run: <code>--sensitivity</code> was not asked for.</p>\n";
  std::vector<std::string> tasks;
  std::vector<layer_id> layers;
  std::vector<double> shares;
  for (const sensitivity_entry& entry : entries) {
    sweep_view::add(tasks, entry.summary.task);
    sweep_view::add(layers, entry.after);
    sweep_view::add(shares, entry.share);
  }
  std::ranges::sort(layers);
  std::ranges::sort(shares, std::greater{});
  const auto mean = [&](layer_id after, double share) {
    return mean_over(tasks, [&](const std::string& task) -> std::optional<estimate> {
      const auto found = std::ranges::find_if(
          entries, [&](const sensitivity_entry& e) { return e.after == after && e.share == share && e.summary.task == task; });
      return found != entries.end() ? std::optional(found->summary.score) : std::nullopt;
    });
  };

  const std::vector<eval_summary>& dense = view.table.sensitivity_dense;
  const std::optional<estimate> dense_score = mean_over(tasks, [&](const std::string& task) -> std::optional<estimate> {
    const auto found = std::ranges::find(dense, task, &eval_summary::task);
    return found != dense.end() ? std::optional(found->score) : std::nullopt;
  });
  const std::optional<chart_level> level = dense_level(dense_score);
  chart_range scores;
  scores.add(level);
  std::vector<chart_series> series;
  std::string rows, head;
  rows += "<tr><th>dense</th>";
  for (const layer_id after : layers) {
    head += "<th>after " + std::to_string(after) + "</th>";
    rows += cell_of(score_quantity, dense_score);
  }
  rows += "</tr>\n";
  for (const double share : shares) {
    const std::string name = fixed_text(100 * share, 0) + " % kept";
    chart_series& line = series.emplace_back(chart_series{name, series.size(), {}});
    rows += "<tr><th>" + name + "</th>";
    for (const layer_id after : layers) {
      const std::optional<estimate> score = mean(after, share);
      rows += cell_of(score_quantity, score);
      if (!score) continue;
      scores.add(score->mean);
      line.points.push_back({static_cast<double>(after), score->mean,
                             name + " after layer " + std::to_string(after) + ": " + whole_text(score_quantity, *score)});
    }
    rows += "</tr>\n";
  }
  std::string html = "<p>Pruned once, after one layer (across), to one share of the prompt's tokens (lines); the mean score over " +
                     std::to_string(tasks.size()) + (tasks.size() == 1 ? " task" : " tasks") +
                     ". A line that rises to the right says that later layers can be pruned harder, which the paper's figure shows "
                     "for 10, 30, 50, 70 and "
                     "90 % kept in Llama 2 7B and XGen 7B. The grey band is the dense model's interval, on the same prompts.</p>\n";
  if (!scores.empty()) {
    const chart drawn{"Pruned once, after one layer",
                      axis_over("layers done before it prunes", static_cast<double>(layers.front()), static_cast<double>(layers.back()), 1),
                      score_axis("mean score", scores.low, scores.high), series, level};
    html += chart_legend(series, level) + "<div class=\"charts\">\n" + chart_figure(drawn) + "</div>\n";
  }
  return html + "<div class=\"wide\"><table>\n<thead><tr><th>score</th>" + head + "</tr></thead>\n<tbody>\n" + rows +
         "</tbody></table></div>\n";
}

/// The mean of a setting's usage over tasks, (points, layers); empty where that of a task is not known.
inline std::vector<std::vector<double>> mean_usage(const sweep_view& view, std::string_view method, double budget) {
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

/// One chart a budget, one line a stage: the layers between two prunings, which have computed the same tokens.
inline std::string usage_figure(const sweep_view& view) {
  std::string charts, head, rows;
  for (const std::string& method : view.methods) {
    if (name_in(method) != "lazyllm") continue;
    for (const double budget : view.budgets) {
      const std::vector<std::vector<double>> usage = mean_usage(view, method, budget);
      if (usage.empty()) continue;
      const auto progress = [&](std::size_t p) { return 100.0 * static_cast<double>(p) / static_cast<double>(usage.size() - 1); };
      const std::string setting = method + ", budget " + text_of_number(budget);
      chart drawn{setting, axis_over("% of the generated tokens", 0, 100), axis_over("% of the prompt's tokens", 0, 100), {}, {}};
      head.clear();
      for (std::size_t p = 0; p < usage.size(); ++p) head += "<th>" + fixed_text(progress(p), 0) + " %</th>";
      for (std::size_t begin = 0, end; begin < view.table.layers; begin = end) {
        const auto alike = [&](const std::vector<double>& shares) { return std::abs(shares[end] - shares[begin]) < 1e-9; };
        for (end = begin + 1; end < view.table.layers && std::ranges::all_of(usage, alike);) ++end;
        const std::string first = std::to_string(begin + 1), last = std::to_string(end);
        const std::string stage = end == begin + 1 ? "layer " + last : "layers " + first + "–" + last;
        chart_series& line = drawn.series.emplace_back(chart_series{stage, drawn.series.size(), {}});
        rows += "<tr><td class=\"text\">" + html_text(setting) + "</td><td class=\"text\">" + stage + "</td>";
        for (std::size_t p = 0; p < usage.size(); ++p) {
          const std::string share = fixed_text(100 * usage[p][begin], 1);
          line.points.push_back({progress(p), 100 * usage[p][begin],
                                 stage + " after " + fixed_text(progress(p), 0) + " % of the generated tokens: " + share + " %"});
          rows += "<td>" + share + "</td>";
        }
        rows += "</tr>\n";
      }
      charts += chart_figure(drawn, chart_legend(drawn.series));
    }
  }
  if (charts.empty()) return "<p>Not drawn: no run of lazyllm says which tokens it computed when.</p>\n";
  return "<p>What share of the prompt's tokens each stage, the layers between two prunings, has computed by then; mean over tasks. "
         "The "
         "first stage reads the whole prompt. Where a later one begins is what the prefill computes there, and what it rises by are tokens "
         "that "
         "came back. A line that ends below 100&nbsp;% is work that was never needed. The paper's figure shows it for four stages of "
         "Llama 2 7B (layers 1–9, 10–19, 20–28, 29–32) over 1,000 prompts of LongBench.</p>\n<div "
         "class=\"charts\">\n" +
         charts + "</div>\n<div class=\"wide\"><table>\n<thead><tr><th>setting</th><th>stage</th>" + head + "</tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n";
}

/// The flags of each setting.
inline std::string setting_table(const sweep_view& view) {
  std::vector<std::string> rows;
  for (const sweep_entry& entry : view.table.entries)
    sweep_view::add(rows, "<tr><th>" + html_text(entry.method) + "</th><td>" + (entry.budget ? text_of_number(*entry.budget) : "–") +
                              "</td><td class=\"flags\"><code>" + html_text(entry.policy) + "</code></td></tr>\n");
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th>method</th><th>budget</th><th>flags</th></tr></thead>\n<tbody>\n";
  for (const std::string& row : rows) html += row;
  return html + "</tbody></table></div>\n";
}

inline std::string result_table(const sweep_view& view) {
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
    for (const sweep_quantity* q : quantities) html += cell_of(*q, q->of(s));
    html += "<td>" + (s.revived ? fixed_text(s.revived->mean, 0) : none) + "</td><td>" +
            (s.peak_bytes ? fixed_text(static_cast<double>(*s.peak_bytes) / (1024.0 * 1024.0), 1) + " MiB" : none) + "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace detail

/// The whole page. Throws `error` where the table has no entries.
inline std::string sweep_page(const sweep_table& table) {
  const detail::sweep_view view(table);
  std::string budgets;
  for (const double budget : view.budgets) budgets += (budgets.empty() ? "" : ", ") + text_of_number(budget);

  return detail::fill_in(detail::sweep_page_layout,
                         {{"title", detail::html_text("Token pruning on " + table.model + ": accuracy and speed")},
                          {"style", std::string(detail::page_style).append(detail::sweep_page_style)},
                          {"facts", detail::facts_list({{"model", table.model},
                                                        {"layers", std::to_string(table.layers)},
                                                        {"tasks", std::to_string(view.tasks.size())},
                                                        {"methods", std::to_string(view.methods.size())},
                                                        {"budgets", budgets}})},
                          {"tasks", detail::task_table(view)},
                          {"methods", detail::method_list(view)},
                          {"table1", detail::group_table(view, detail::score_quantity, detail::speedup_quantity, true)},
                          {"table2", detail::group_table(view, detail::computed_quantity, detail::overall_quantity, false)},
                          {"figure5", detail::accuracy_figure(view)},
                          {"figure6", detail::sensitivity_figure(view)},
                          {"figure7", detail::usage_figure(view)},
                          {"settings", detail::setting_table(view)},
                          {"results", detail::result_table(view)}});
}

/// The first chart of Figure 5 alone, an SVG file with its legend: scores over speedups, means over all tasks. Empty where no speedup was
/// measured. Throws `error` where the table is empty.
inline std::string sweep_figure(const sweep_table& table) {
  const std::vector<detail::chart> charts = detail::accuracy_charts(detail::sweep_view(table));
  return charts.empty() ? "" : detail::svg_chart_with_legend(charts.front());
}

}  // namespace v0
}  // namespace lazyprune
