// SPDX-License-Identifier: MIT
// What methods scored and cost on tasks, written down.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tables/table.hpp"

#include <lazyprune/eval/summary.hpp>

namespace lazyprune {
namespace program {

/// Keys: task, method, metric, score (0 to 100), ci95 [low, high], n; then, where known, lost, prompt_tokens, generated_tokens, ttft_s,
/// dense_ttft_s, speedup_ttft, total_s, speedup_total, share_computed and revived, each a mean with its KEY_ci95 after it; before
/// share_computed, timed: how many of the n the times are of; and per_layer, usage (in JSON alone) and peak_bytes.
table table_of(std::span<const eval_summary> summaries);

/// The columns after task and method, and what a summary has in them.
std::vector<column> summary_columns();
std::vector<cell> summary_cells(const eval_summary& summary);

/// The table for people has means with half the width of their intervals; columns that no summary has something in are left out.
std::string to_markdown(std::span<const eval_summary> summaries);

}  // namespace program
}  // namespace lazyprune
