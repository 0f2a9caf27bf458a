// SPDX-License-Identifier: MIT
#include "tables/summary_table.hpp"

#include <algorithm>

#include "tables/number_text.hpp"

namespace lazyprune {
namespace program {

std::vector<column> summary_columns() {
  std::vector<column> columns{{"metric"}, {"score"}, {"ci95", column_kind::interval}, {"n"}};
  for (const char* mean :
       {"lost", "prompt_tokens", "generated_tokens", "ttft_s", "dense_ttft_s", "speedup_ttft", "total_s", "speedup_total"})
    columns.push_back({mean, column_kind::estimate});
  columns.push_back({"timed"});
  for (const char* mean : {"share_computed", "revived"}) columns.push_back({mean, column_kind::estimate});
  columns.push_back({"per_layer"});
  columns.push_back({"usage", column_kind::json_alone});
  columns.push_back({"peak_bytes"});
  return columns;
}

std::vector<cell> summary_cells(const eval_summary& s) {
  return {s.metric,
          s.score.mean,
          s.score.ci95,
          std::uint64_t{s.n},
          cell_of(s.lost),
          cell_of(s.prompt_tokens),
          cell_of(s.generated_tokens),
          cell_of(s.ttft_s),
          cell_of(s.dense_ttft_s),
          cell_of(s.speedup_ttft),
          cell_of(s.total_s),
          cell_of(s.speedup_total),
          cell_of(s.timed),
          cell_of(s.share_computed),
          cell_of(s.revived),
          s.per_layer.empty() ? cell() : cell(s.per_layer),
          s.usage.empty() ? cell() : cell(s.usage),
          cell_of(s.peak_bytes)};
}

table table_of(std::span<const eval_summary> summaries) {
  table t{.columns = {{"task"}, {"method"}}, .rows = {}};
  for (column& c : summary_columns()) t.columns.push_back(std::move(c));
  for (const eval_summary& s : summaries) {
    std::vector<cell>& row = t.rows.emplace_back(std::vector<cell>{s.task, s.method});
    for (cell& value : summary_cells(s)) row.push_back(std::move(value));
  }
  return t;
}

std::string to_markdown(std::span<const eval_summary> summaries) {
  const bool some_timed = std::ranges::any_of(summaries, [](const eval_summary& s) { return s.timed.value_or(0) > 0 && s.timed != s.n; });
  std::vector<std::vector<std::string>> rows;
  for (const eval_summary& s : summaries)
    rows.push_back({s.task, s.method, s.metric, std::to_string(s.n), with_interval(s.score, 1, 2), with_interval(s.lost, 1, 2),
                    s.prompt_tokens ? fixed(s.prompt_tokens->mean, 0) : "", some_timed && s.timed ? std::to_string(*s.timed) : "",
                    with_interval(s.ttft_s, 1e3, 1), with_interval(s.dense_ttft_s, 1e3, 1), with_interval(s.speedup_ttft, 1, 2, "x"),
                    with_interval(s.total_s, 1e3, 1), with_interval(s.speedup_total, 1, 2, "x"),
                    with_interval(s.share_computed, 100, 1, " %"), s.revived ? fixed(s.revived->mean, 0) : "",
                    s.peak_bytes ? fixed(static_cast<double>(*s.peak_bytes) / (1024.0 * 1024.0), 1) + " MiB" : ""});
  return markdown_table(markdown_columns(3, {"task", "method", "metric", "n", "score", "lost", "tokens", "timed", "TTFT, ms", "dense, ms",
                                             "speedup", "total, ms", "total speedup", "computed", "revived", "peak"}),
                        rows);
}

}  // namespace program
}  // namespace lazyprune
