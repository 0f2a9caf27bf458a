// SPDX-License-Identifier: MIT
// Writes the table of `eval`: scores and costs of methods on tasks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tables/table.hpp"

#include <lazyprune/eval/summary.hpp>

namespace lazyprune {
namespace program {

/// The table for JSON and CSV. Every row has the keys task, method, metric, score (0 to 100), ci95 [low, high] and n. These keys follow if
/// their values are known: lost, prompt_tokens, generated_tokens, ttft_s, dense_ttft_s, speedup_ttft, total_s, speedup_total, timed (how
/// many of the n samples were timed), share_computed, revived, per_layer, usage (JSON only) and peak_bytes. The keys from lost to revived
/// hold means, except timed. After each of these means follows its 95 % interval, KEY_ci95.
table table_of(std::span<const eval_summary> summaries);

/// Returns the columns that follow task and method. summary_cells returns a summary's cells for these columns.
std::vector<column> summary_columns();
std::vector<cell> summary_cells(const eval_summary& summary);

/// The Markdown table for people. After each mean stands half the width of its interval. Empty columns are left out. The column "timed"
/// is there if some, but not all, predictions of a summary were timed.
std::string to_markdown(std::span<const eval_summary> summaries);

}  // namespace program
}  // namespace lazyprune
