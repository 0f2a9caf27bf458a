// SPDX-License-Identifier: MIT
// Fidelity written down: a table for people, JSON and CSV for programs.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/eval/fidelity.hpp>
#include "tables/table_text.hpp"

namespace lazyprune {
inline namespace v0 {

/// Keys: text, policy, texts, steps, prompt_tokens; agreement (0 to 1), kl (nats), dense_perplexity and perplexity, each with its KEY_ci95
/// [low, high]; equal_texts (0 to 1), parted_at (the step, from 0, at which greedy texts part, of several the earliest; null: nowhere);
/// rows (share of the dense model's in the prefill), ttft_s, dense_ttft_s, speedup_ttft.
inline nlohmann::ordered_json json_of(const fidelity_summary& summary) {
  nlohmann::ordered_json out{{"text", summary.text},
                             {"policy", summary.policy},
                             {"texts", summary.texts},
                             {"steps", summary.steps},
                             {"prompt_tokens", summary.prompt_tokens}};
  const auto add = [&](const std::string& key, const estimate& value) {
    out[key] = value.mean;
    out[key + "_ci95"] = {value.ci95.low, value.ci95.high};
  };
  add("agreement", summary.agreement);
  add("kl", summary.kl);
  add("dense_perplexity", summary.dense_perplexity);
  add("perplexity", summary.perplexity);
  out["equal_texts"] = summary.equal_texts;
  out["parted_at"] = nullptr;
  if (summary.parted_at) out["parted_at"] = *summary.parted_at;
  out["rows"] = summary.rows;
  out["ttft_s"] = summary.ttft_s;
  out["dense_ttft_s"] = summary.dense_ttft_s;
  if (summary.ttft_s > 0) out["speedup_ttft"] = summary.dense_ttft_s / summary.ttft_s;
  return out;
}

/// A list, one object a summary.
inline std::string to_json(std::span<const fidelity_summary> summaries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const fidelity_summary& summary : summaries) list.push_back(json_of(summary));
  return list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

/// RFC 4180, with ends of lines as on Unix: a line of keys, then a line a summary. Intervals are two columns, KEY_low and KEY_high; what
/// is null or not known is empty.
inline std::string to_csv(std::span<const fidelity_summary> summaries) {
  static constexpr std::array<std::string_view, 15> keys{
      "text",       "policy",      "texts",     "steps", "prompt_tokens", "agreement",    "kl",          "dense_perplexity",
      "perplexity", "equal_texts", "parted_at", "rows",  "ttft_s",        "dense_ttft_s", "speedup_ttft"};
  std::string out;
  const auto add = [&](std::string_view field) { out.append(out.empty() || out.back() == '\n' ? "" : ",").append(field); };
  const auto is_estimate = [](std::string_view key) { return key == "agreement" || key == "kl" || key.ends_with("perplexity"); };
  for (const std::string_view key : keys) {
    add(key);
    if (!is_estimate(key)) continue;
    for (const std::string_view end : {"_low", "_high"}) add(std::string(key).append(end));
  }
  out += '\n';
  for (const fidelity_summary& summary : summaries) {
    const nlohmann::ordered_json json = json_of(summary);
    add(detail::csv_text(summary.text));
    add(detail::csv_text(summary.policy));
    for (std::size_t k = 2; k < keys.size(); ++k) {
      const std::string key(keys[k]);
      const bool known = json.contains(key) && !json[key].is_null();
      out += known ? ',' + json[key].dump() : ",";
      if (is_estimate(key))
        for (const std::size_t end : {0u, 1u}) out += ',' + json[key + "_ci95"][end].dump();
    }
    out += '\n';
  }
  return out;
}

/// A table in Markdown, legible as it is. Means with half the width of their intervals; perplexities, whose intervals lie askew, without.
inline std::string to_markdown(std::span<const fidelity_summary> summaries) {
  std::vector<std::vector<std::string>> rows{{"text", "greedy text", "prompt", "steps", "agreement", "KL, nats", "perplexity", "dense",
                                              "rows", "TTFT, ms", "dense, ms", "speedup"}};
  const auto perplexity = [](const estimate& e) { return e.mean < 1e6 ? detail::fixed_text(e.mean, 2) : "above 1e6"; };
  for (const fidelity_summary& s : summaries) {
    const std::string several = detail::fixed_text(100 * s.equal_texts, 1) + " % equal";
    const std::string one = s.parted_at ? "equal for " + std::to_string(*s.parted_at) : "equal";
    rows.push_back({s.text, s.texts > 1 ? several : one, detail::fixed_text(s.prompt_tokens, 0), std::to_string(s.steps),
                    detail::with_interval(s.agreement, 100, 1, " %"), detail::with_interval(s.kl, 1, 4), perplexity(s.perplexity),
                    perplexity(s.dense_perplexity), detail::fixed_text(100 * s.rows, 1) + " %", detail::fixed_text(1e3 * s.ttft_s, 1),
                    detail::fixed_text(1e3 * s.dense_ttft_s, 1),
                    s.ttft_s > 0 ? detail::fixed_text(s.dense_ttft_s / s.ttft_s, 2) + "x" : ""});
  }
  return detail::markdown_table(rows, 2);
}

}  // namespace v0
}  // namespace lazyprune
