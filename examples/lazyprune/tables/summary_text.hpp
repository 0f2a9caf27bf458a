// SPDX-License-Identifier: MIT
// Summaries written down: a table for people, JSON and CSV for programs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/eval/summary.hpp>
#include "tables/table_text.hpp"

namespace lazyprune {
inline namespace v0 {

/// Keys: task, method, metric, score (0 to 100), ci95 [low, high], n; then, where known, lost, prompt_tokens, generated_tokens, ttft_s,
/// dense_ttft_s, speedup_ttft, total_s, speedup_total, share_computed and revived, each a mean with its KEY_ci95 after it, per_layer, usage
/// and peak_bytes.
inline nlohmann::ordered_json json_of(const eval_summary& summary) {
  nlohmann::ordered_json out{{"task", summary.task}, {"method", summary.method}, {"metric", summary.metric}, {"score", summary.score.mean}};
  const auto ends = [](const estimate& e) { return nlohmann::ordered_json{e.ci95.low, e.ci95.high}; };
  const auto add = [&](const std::string& key, const std::optional<estimate>& value) {
    if (!value) return;
    out[key] = value->mean;
    out[key + "_ci95"] = ends(*value);
  };
  out["ci95"] = ends(summary.score);
  out["n"] = summary.n;
  add("lost", summary.lost);
  add("prompt_tokens", summary.prompt_tokens);
  add("generated_tokens", summary.generated_tokens);
  add("ttft_s", summary.ttft_s);
  add("dense_ttft_s", summary.dense_ttft_s);
  add("speedup_ttft", summary.speedup_ttft);
  add("total_s", summary.total_s);
  add("speedup_total", summary.speedup_total);
  add("share_computed", summary.share_computed);
  add("revived", summary.revived);
  if (!summary.per_layer.empty()) out["per_layer"] = summary.per_layer;
  if (!summary.usage.empty()) out["usage"] = summary.usage;
  if (summary.peak_bytes) out["peak_bytes"] = *summary.peak_bytes;
  return out;
}

/// A list, one object a summary.
inline std::string to_json(std::span<const eval_summary> summaries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const eval_summary& summary : summaries) list.push_back(json_of(summary));
  return list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

namespace detail {

inline constexpr std::array<std::string_view, 10> csv_means{"lost",           "prompt_tokens", "generated_tokens", "ttft_s",
                                                            "dense_ttft_s",   "speedup_ttft",  "total_s",          "speedup_total",
                                                            "share_computed", "revived"};

/// The columns of what a summary says beside its task and method, and their values.
inline std::string csv_keys() {
  std::string out = "metric,score,ci95_low,ci95_high,n";
  for (const std::string_view key : csv_means)
    for (const std::string_view part : {"", "_low", "_high"}) out.append(",").append(key).append(part);
  return out + ",per_layer,peak_bytes";
}

inline std::string csv_values(const eval_summary& summary) {
  const nlohmann::ordered_json json = json_of(summary);
  const auto number = [](const nlohmann::ordered_json& value) { return ',' + value.dump(); };
  const auto interval = [&](const std::string& key) { return number(json[key][0]) + number(json[key][1]); };
  std::string out = csv_text(summary.metric) + number(json["score"]) + interval("ci95") + number(json["n"]);
  for (const std::string_view mean : csv_means) {
    const std::string key(mean);
    out += json.contains(key) ? number(json[key]) + interval(key + "_ci95") : ",,,";
  }
  out += ',';
  for (std::size_t l = 0; l < summary.per_layer.size(); ++l) out += (l > 0 ? " " : "") + json["per_layer"][l].dump();
  return out + (summary.peak_bytes ? number(json["peak_bytes"]) : ",");
}

}  // namespace detail

/// RFC 4180, with ends of lines as on Unix: a line of keys, then a line a summary. Intervals are two columns, KEY_low and KEY_high;
/// per_layer is one, with spaces between its numbers; what is not known is empty. Without `usage`, which is a table of its own.
inline std::string to_csv(std::span<const eval_summary> summaries) {
  std::string out = "task,method," + detail::csv_keys() + '\n';
  for (const eval_summary& summary : summaries)
    out += detail::csv_text(summary.task) + ',' + detail::csv_text(summary.method) + ',' + detail::csv_values(summary) + '\n';
  return out;
}

/// A table in Markdown, legible as it is. Means with half the width of their intervals; columns that no summary has something in are left
/// out.
inline std::string to_markdown(std::span<const eval_summary> summaries) {
  using detail::fixed_text, detail::with_interval;
  const auto bytes = [](const std::optional<std::uint64_t>& b) {
    return b ? fixed_text(static_cast<double>(*b) / (1024.0 * 1024.0), 1) + " MiB" : std::string();
  };
  std::vector<std::vector<std::string>> rows{{"task", "method", "metric", "n", "score", "lost", "tokens", "TTFT, ms", "dense, ms",
                                              "speedup", "total, ms", "total speedup", "computed", "revived", "peak"}};
  for (const eval_summary& s : summaries)
    rows.push_back({s.task, s.method, s.metric, std::to_string(s.n), with_interval(s.score, 1, 2), with_interval(s.lost, 1, 2),
                    s.prompt_tokens ? fixed_text(s.prompt_tokens->mean, 0) : "", with_interval(s.ttft_s, 1e3, 1),
                    with_interval(s.dense_ttft_s, 1e3, 1), with_interval(s.speedup_ttft, 1, 2, "x"), with_interval(s.total_s, 1e3, 1),
                    with_interval(s.speedup_total, 1, 2, "x"), with_interval(s.share_computed, 100, 1, " %"),
                    s.revived ? fixed_text(s.revived->mean, 0) : "", bytes(s.peak_bytes)});
  return detail::markdown_table(rows, 3);
}

}  // namespace v0
}  // namespace lazyprune
