// SPDX-License-Identifier: MIT
#include "tables/fidelity_table.hpp"

#include <algorithm>
#include <utility>

#include "tables/number_text.hpp"

#include <lazyprune/core/flag_text.hpp>

namespace lazyprune {
namespace program {

table table_of(std::span<const fidelity_entry> entries) {
  table t{.columns = {{"text"},
                      {"policy"},
                      {"method"},
                      {"budget"},
                      {"texts"},
                      {"steps"},
                      {"prompt_tokens"},
                      {"agreement", column_kind::estimate},
                      {"kl", column_kind::estimate},
                      {"dense_perplexity", column_kind::estimate},
                      {"perplexity", column_kind::estimate},
                      {"equal_texts"},
                      {"parted_at"},
                      {"rows"},
                      {"ttft_s"},
                      {"dense_ttft_s"},
                      {"speedup_ttft"}},
          .rows = {}};
  for (const auto& [method, budget, s] : entries)
    t.rows.push_back({s.text, s.policy, method.empty() ? cell(nullptr) : cell(method),
                      budget ? cell(number_as_text{text_of_number(*budget)}) : cell(nullptr), std::uint64_t{s.texts},
                      std::uint64_t{s.steps}, s.prompt_tokens, s.agreement, s.kl, s.dense_perplexity, s.perplexity, s.equal_texts,
                      s.parted_at ? cell(std::uint64_t{*s.parted_at}) : cell(nullptr), s.rows, s.ttft_s, s.dense_ttft_s,
                      s.ttft_s > 0 ? cell(s.dense_ttft_s / s.ttft_s) : cell()});
  return t;
}

std::string to_markdown(std::span<const fidelity_entry> entries) {
  const bool methods = std::ranges::any_of(entries, [](const fidelity_entry& e) { return !e.method.empty(); });
  std::size_t all = 0;  // texts
  for (const fidelity_entry& entry : entries) all = std::max(all, entry.summary.texts);
  std::vector<std::string> heads{"text",       "greedy text", "prompt", "steps",    "agreement", "KL, nats",
                                 "perplexity", "dense",       "rows",   "TTFT, ms", "dense, ms", "speedup"};
  if (methods) heads.insert(heads.begin(), "method");
  std::vector<std::vector<std::string>> rows;
  const auto perplexity = [](const estimate& e) { return e.mean < 1e6 ? fixed(e.mean, 2) : "above 1e6"; };
  for (const auto& [method, budget, s] : entries) {
    if (methods && s.texts < all) continue;
    const std::string several = fixed(100 * s.equal_texts, 1) + " % equal";
    const std::string one = s.parted_at ? "equal for " + std::to_string(*s.parted_at) : "equal";
    rows.push_back({s.text, s.texts > 1 ? several : one, fixed(s.prompt_tokens, 0), std::to_string(s.steps),
                    with_interval(s.agreement, 100, 1, " %"), with_interval(s.kl, 1, 4), perplexity(s.perplexity),
                    perplexity(s.dense_perplexity), percent_text(s.rows), fixed(1e3 * s.ttft_s, 1), fixed(1e3 * s.dense_ttft_s, 1),
                    s.ttft_s > 0 ? fixed(s.dense_ttft_s / s.ttft_s, 2) + "x" : ""});
    if (methods) rows.back().insert(rows.back().begin(), budget ? method + ' ' + text_of_number(*budget) : method);
  }
  return markdown_table(markdown_columns(methods ? 3 : 2, heads), rows);
}

}  // namespace program
}  // namespace lazyprune
