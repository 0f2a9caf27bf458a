// SPDX-License-Identifier: MIT
// How close a pruned model stays to the dense one, on any text and without labels. Both models read a prompt. Then both read the next
// tokens of the text, one by one, whatever they would have generated.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/eval/estimate.hpp>
#include <lazyprune/model/sampler.hpp>

namespace lazyprune {
inline namespace v0 {

/// Both models' predictions of one next token. Probabilities are softmax(logits), computed in double.
struct step_fidelity {
  bool agrees;        // both have the same most likely token (for equal logits, the lower id)
  double kl;          // KL(dense || pruned) = sum over tokens of p_dense (log p_dense - log p_pruned), nats; 0 for equal logits
  double dense_loss;  // -log p_dense of the actual next token, nats
  double loss;        // -log p_pruned of the actual next token, nats
  friend bool operator==(const step_fidelity&, const step_fidelity&) = default;
};

/// Compares the logits `dense` and `pruned`, (vocabulary), at one place in a text. `next` is the next token of the text.
inline step_fidelity fidelity_of(std::span<const float> dense, std::span<const float> pruned, token_id next) {
  const double dense_sum = log_sum_exp(dense), sum = log_sum_exp(pruned);
  double kl = 0;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const double log_dense = dense[i] - dense_sum, log_pruned = pruned[i] - sum;
    kl += std::exp(log_dense) * (log_dense - log_pruned);
  }
  return {.agrees = greedy(dense) == greedy(pruned),
          .kl = std::max(kl, 0.0),  // negative only by rounding
          .dense_loss = dense_sum - dense[next],
          .loss = sum - pruned[next]};
}

/// How close two models stay on one text.
struct text_fidelity {
  std::string text;  // the name of the text
  std::size_t prompt_tokens = 0;
  std::vector<step_fidelity> steps;      // one for each token read after the prompt
  std::optional<std::size_t> parted_at;  // index of the first token in which the two greedy continuations differ; none: they are equal
  double rows = 0;                       // share of the dense model's prefill rows that the pruned model computes
  double ttft_s = 0;                     // time to first token
  double dense_ttft_s = 0;
  friend bool operator==(const text_fidelity&, const text_fidelity&) = default;
};

/// Returns the index of the first token that differs. If one list is a prefix of the other, returns the length of the prefix. Returns
/// nullopt if the lists are equal.
inline std::optional<std::size_t> first_difference(std::span<const token_id> a, std::span<const token_id> b) {
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  if (at == a.size() && at == b.size()) return std::nullopt;
  return at;
}

/// Means over steps, of one text or several.
struct fidelity_summary {
  std::string text;  // its name; "all" for several texts
  std::string policy;
  std::size_t texts = 1;
  std::size_t steps = 0;
  double prompt_tokens = 0;     // the mean
  estimate agreement{};         // share of steps at which the models agree
  estimate kl{};                // nats per step
  estimate dense_perplexity{};  // exp(mean loss)
  estimate perplexity{};
  double equal_texts = 0;                  // share of the texts that both models continue alike when they generate greedily
  std::optional<std::size_t> parted_at{};  // the smallest parted_at of the texts
  double rows = 0;                         // the mean
  double ttft_s = 0, dense_ttft_s = 0;     // the means
  friend bool operator==(const fidelity_summary&, const fidelity_summary&) = default;
};

namespace detail {

/// Sums over the steps that the bootstrap draws as one unit.
struct fidelity_unit {
  double steps = 0, agree = 0, kl = 0, dense_loss = 0, loss = 0;

  void add(const step_fidelity& step) {
    ++steps;
    agree += step.agrees;
    kl += step.kl;
    dense_loss += step.dense_loss;
    loss += step.loss;
  }
};

inline void estimate_fidelity(fidelity_summary& summary, std::span<const fidelity_unit> units, const bootstrap& draws) {
  const auto mean = [&](double fidelity_unit::*part) {
    std::vector<double> upper, lower;
    for (const fidelity_unit& unit : units) {
      upper.push_back(unit.*part);
      lower.push_back(unit.steps);
    }
    return ratio_of(upper, lower, draws);
  };
  const auto perplexity = [](const estimate& loss) -> estimate {
    return {std::exp(loss.mean), {std::exp(loss.ci95.low), std::exp(loss.ci95.high)}};
  };
  summary.agreement = mean(&fidelity_unit::agree);
  summary.kl = mean(&fidelity_unit::kl);
  summary.dense_perplexity = perplexity(mean(&fidelity_unit::dense_loss));
  summary.perplexity = perplexity(mean(&fidelity_unit::loss));
}

}  // namespace detail

/// Summarizes at least one text, each with at least one step. Every step has the same weight. For the intervals, the bootstrap draws whole
/// texts. If there is a single text, it draws the steps of this text, as if they were independent. The intervals then say how well the
/// means are known for this one text. They say nothing about other texts.
inline fidelity_summary summary_of(std::span<const text_fidelity> texts, std::string policy, const bootstrap& draws = {}) {
  fidelity_summary summary;
  summary.text = texts.size() == 1 ? texts.front().text : "all";
  summary.policy = std::move(policy);
  summary.texts = texts.size();
  std::vector<detail::fidelity_unit> units;
  for (const text_fidelity& text : texts) {
    for (std::size_t i = 0; i < text.steps.size(); ++i) {
      if (i == 0 || texts.size() == 1) units.emplace_back();
      units.back().add(text.steps[i]);
    }
    summary.steps += text.steps.size();
    summary.prompt_tokens += static_cast<double>(text.prompt_tokens);
    summary.equal_texts += text.parted_at ? 0 : 1;
    if (text.parted_at) summary.parted_at = std::min(*text.parted_at, summary.parted_at.value_or(*text.parted_at));
    summary.rows += text.rows;
    summary.ttft_s += text.ttft_s;
    summary.dense_ttft_s += text.dense_ttft_s;
  }
  for (double fidelity_summary::*mean : {&fidelity_summary::prompt_tokens, &fidelity_summary::equal_texts, &fidelity_summary::rows,
                                         &fidelity_summary::ttft_s, &fidelity_summary::dense_ttft_s})
    summary.*mean /= static_cast<double>(texts.size());
  detail::estimate_fidelity(summary, units, draws);
  return summary;
}

}  // namespace v0
}  // namespace lazyprune
