// SPDX-License-Identifier: MIT
// Combines several runs of one sample, for example with different seeds, into one prediction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/task.hpp>

namespace lazyprune {
inline namespace v0 {

struct pooled_prediction {
  eval_prediction prediction;  // the first run's text, and the mean cost of all runs (counts rounded; peak_bytes: the maximum)
  double score;                // 0 to 1: the mean
};

/// Combines the runs of one sample. Otherwise a confidence interval would take five runs of one sample for five samples. A value is left
/// out if at least one run lacks it. Throws `error` if there is no run, if a run has no cost, or if the runs have different numbers of
/// layers. Also throws as `score_of` does.
inline pooled_prediction pooled(const eval_task& task, std::span<const eval_prediction> runs) {
  if (runs.empty()) throw error(task.name, "runs", "at least one run of the sample", "none");
  pooled_prediction all{runs.front(), 0};
  const auto n = static_cast<double>(runs.size());
  for (const eval_prediction& run : runs) {
    if (!run.cost || run.cost->rows.size() != runs.front().cost->rows.size())
      throw error(task.name, "runs", "the cost of each run, over the same layers",
                  run.cost ? "another number of layers" : "a run without a cost");
    all.score += score_of(task, run) / n;
  }

  const auto mean = [&](auto of) {
    double sum = 0;
    for (const eval_prediction& run : runs) sum += static_cast<double>(of(*run.cost));
    return sum / n;
  };
  const auto count = [&](auto of) { return static_cast<std::uint64_t>(std::llround(mean(of))); };
  const auto time = [&](std::optional<double> eval_cost::*seconds) -> std::optional<double> {
    if (!std::ranges::all_of(runs, [&](const eval_prediction& run) { return ((*run.cost).*seconds).has_value(); })) return std::nullopt;
    return mean([&](const eval_cost& c) { return *(c.*seconds); });
  };
  eval_cost& cost = *all.prediction.cost;
  cost.prompt_tokens = count([](const eval_cost& c) { return c.prompt_tokens; });
  if (std::ranges::all_of(runs, [](const eval_prediction& run) { return run.cost->generated_tokens.has_value(); }))
    cost.generated_tokens = count([](const eval_cost& c) { return *c.generated_tokens; });
  else
    cost.generated_tokens.reset();
  cost.ttft_s = time(&eval_cost::ttft_s);
  cost.dense_ttft_s = time(&eval_cost::dense_ttft_s);
  cost.total_s = time(&eval_cost::total_s);
  cost.dense_total_s = time(&eval_cost::dense_total_s);
  cost.share_computed = mean([](const eval_cost& c) { return c.share_computed; });
  cost.revived = count([](const eval_cost& c) { return c.revived; });
  for (std::size_t l = 0; l < cost.rows.size(); ++l) cost.rows[l] = count([&](const eval_cost& c) { return c.rows[l]; });
  const auto shape = [](const eval_prediction& run) {
    std::vector<std::size_t> sizes;
    for (const auto& moment : run.cost->usage) sizes.push_back(moment.size());
    return sizes;
  };
  if (std::ranges::all_of(runs, [&](const eval_prediction& run) { return shape(run) == shape(runs.front()); })) {
    for (std::size_t m = 0; m < cost.usage.size(); ++m)
      for (std::size_t l = 0; l < cost.usage[m].size(); ++l) cost.usage[m][l] = count([&](const eval_cost& c) { return c.usage[m][l]; });
  } else {
    cost.usage.clear();
  }
  for (const eval_prediction& run : runs) cost.peak_bytes = std::max(cost.peak_bytes, run.cost->peak_bytes);
  return all;
}

}  // namespace v0
}  // namespace lazyprune
