// SPDX-License-Identifier: MIT
// The summary of one method's predictions on one task: the score and the cost (the paper's Tables 1 and 2).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/estimate.hpp>
#include <lazyprune/eval/task.hpp>

namespace lazyprune {
inline namespace v0 {

struct eval_summary {
  std::string task;
  std::string method;
  std::string metric;
  std::size_t n = 0;  // predictions; or samples, if several runs of a sample are pooled (eval/pooled.hpp)
  estimate score{};   // 0 to 100
  // How many points the method's score is below the dense model's, compared sample by sample (loss_of). Not set for the dense model itself,
  // nor if the dense model answered other questions.
  std::optional<estimate> lost{};
  // The members below are set only if every prediction has a cost. Times are means over the predictions that have times.
  std::optional<estimate> prompt_tokens{};
  std::optional<estimate> generated_tokens{};  // including EOS
  std::optional<estimate> ttft_s{};
  std::optional<estimate> dense_ttft_s{};
  std::optional<estimate> speedup_ttft{};    // mean dense_ttft_s over mean ttft_s of the predictions that have both
  std::optional<estimate> share_computed{};  // share of the (prompt token, layer) pairs computed by the end of the generation
  std::optional<estimate> revived{};         // revived rows per prediction
  std::optional<estimate> total_s{};         // time of the whole generation
  std::optional<estimate> speedup_total{};   // mean dense_total_s over mean total_s of the predictions that have both
  std::optional<std::uint64_t> timed{};      // number of predictions with a time to first token
  std::vector<double> per_layer{};           // share of the prompt tokens that each layer computed in the prefill
  // (11, layers): share of the prompt tokens that each layer has computed after 0 %, 10 % ... 100 % of the decode steps.
  std::vector<std::vector<double>> usage{};
  std::optional<std::uint64_t> peak_bytes{};  // the maximum over predictions that measured it
  friend bool operator==(const eval_summary&, const eval_summary&) = default;
};

namespace detail {

/// `counts_of(cost)` is a list of token counts, one for each layer. Returns for each layer the sum of its counts over all predictions,
/// divided by the sum of their prompt tokens. The result is empty if the lists have different lengths.
template <class Counts>
std::vector<double> shares_of_tokens(std::span<const eval_prediction> predictions, Counts counts_of) {
  std::vector<double> shares(counts_of(*predictions.front().cost).size(), 0.0);
  std::size_t tokens = 0;
  for (const eval_prediction& prediction : predictions) {
    const std::vector<std::uint64_t>& counts = counts_of(*prediction.cost);
    if (counts.size() != shares.size()) return {};
    for (std::size_t l = 0; l < shares.size(); ++l) shares[l] += static_cast<double>(counts[l]);
    tokens += prediction.cost->prompt_tokens;
  }
  for (double& share : shares) share /= static_cast<double>(tokens);
  return shares;
}

inline std::vector<std::vector<double>> shares_in_use(std::span<const eval_prediction> predictions) {
  const std::size_t moments = predictions.front().cost->usage.size();
  if (!std::ranges::all_of(predictions, [&](const eval_prediction& p) { return p.cost->usage.size() == moments; })) return {};
  std::vector<std::vector<double>> shares;
  for (std::size_t m = 0; m < moments; ++m)
    shares.push_back(shares_of_tokens(
        predictions, [m](const eval_cost& c) -> const auto& { return c.usage[m]; }));
  return shares;
}

}  // namespace detail

/// Returns how many points, on a scale of 100, the mean of `scores` is below the mean of `dense`. Entry i of both lists is the score of
/// sample i, from 0 to 1. The interval comes from the differences of these pairs. It is usually narrower than an interval without pairs,
/// because a hard sample lowers both scores but hardly changes their difference.
inline estimate loss_of(std::span<const double> dense, std::span<const double> scores, const bootstrap& draws = {}) {
  std::vector<double> lost;
  for (std::size_t i = 0; i < scores.size(); ++i) lost.push_back(100.0 * (dense[i] - scores[i]));
  return estimate_of(lost, draws);
}

/// Summarizes predictions with their `scores`, from 0 to 1. Throws `error` if there are no scores.
inline eval_summary summary_of(const eval_task& task, std::string_view method, std::span<const eval_prediction> predictions,
                               std::vector<double> scores, const bootstrap& draws = {}) {
  if (scores.empty()) throw error(task.name, "", "at least one prediction", "none");
  for (double& score : scores) score *= 100.0;

  eval_summary summary;
  summary.task = task.name;
  summary.method = method;
  summary.metric = name_of(task.metric);
  summary.n = scores.size();
  summary.score = estimate_of(scores, draws);
  if (!std::ranges::all_of(predictions, [](const eval_prediction& p) { return p.cost.has_value(); })) return summary;

  const auto values = [&](auto of) {
    std::vector<double> out;
    for (const eval_prediction& prediction : predictions) out.push_back(static_cast<double>(of(*prediction.cost)));
    return out;
  };
  summary.prompt_tokens = estimate_of(values([](const eval_cost& c) { return c.prompt_tokens; }), draws);
  const auto all = [&](auto has) { return std::ranges::all_of(predictions, [&](const eval_prediction& p) { return has(*p.cost); }); };
  if (all([](const eval_cost& c) { return c.generated_tokens.has_value(); }))
    summary.generated_tokens = estimate_of(values([](const eval_cost& c) { return *c.generated_tokens; }), draws);
  // Sets `seconds` and `speedup` from the predictions that have times. Returns the dense model's seconds.
  const auto time = [&](auto of, auto dense_of, std::optional<estimate>& seconds, std::optional<estimate>& speedup) -> std::vector<double> {
    std::vector<double> own, paired, dense;
    for (const eval_prediction& prediction : predictions) {
      const std::optional<double> pruned_s = of(*prediction.cost), dense_s = dense_of(*prediction.cost);
      if (!pruned_s) continue;
      own.push_back(*pruned_s);
      if (!dense_s) continue;
      paired.push_back(*pruned_s);
      dense.push_back(*dense_s);
    }
    if (!own.empty()) seconds = estimate_of(own, draws);
    if (!dense.empty() && std::ranges::all_of(paired, [](double s) { return s > 0; })) speedup = ratio_of(dense, paired, draws);
    return dense;
  };
  const std::vector<double> dense_ttft = time([](const eval_cost& c) { return c.ttft_s; },
                                              [](const eval_cost& c) { return c.dense_ttft_s; }, summary.ttft_s, summary.speedup_ttft);
  if (!dense_ttft.empty()) summary.dense_ttft_s = estimate_of(dense_ttft, draws);
  time([](const eval_cost& c) { return c.total_s; }, [](const eval_cost& c) { return c.dense_total_s; }, summary.total_s,
       summary.speedup_total);
  summary.timed = static_cast<std::uint64_t>(std::ranges::count_if(predictions, [](const auto& p) { return p.cost->ttft_s.has_value(); }));
  summary.share_computed = estimate_of(values([](const eval_cost& c) { return c.share_computed; }), draws);
  summary.revived = estimate_of(values([](const eval_cost& c) { return c.revived; }), draws);
  summary.per_layer = detail::shares_of_tokens(
      predictions, [](const eval_cost& c) -> const auto& { return c.rows; });
  summary.usage = detail::shares_in_use(predictions);
  std::uint64_t peak = 0;
  for (const eval_prediction& prediction : predictions) peak = std::max(peak, prediction.cost->peak_bytes);
  if (peak > 0) summary.peak_bytes = peak;  // only runs that are timed measure it
  return summary;
}

/// Scores predictions, then summarizes them. Throws `error` if there is no prediction, or if one cannot be scored.
inline eval_summary summary_of(const eval_task& task, std::string_view method, std::span<const eval_prediction> predictions,
                               const bootstrap& draws = {}) {
  std::vector<double> scores;
  for (const eval_prediction& prediction : predictions) scores.push_back(score_of(task, prediction));
  return summary_of(task, method, predictions, std::move(scores), draws);
}

}  // namespace v0
}  // namespace lazyprune
