// SPDX-License-Identifier: MIT
// Finds the heads whose attention shows which blocks of a prompt matter, for calibrated_attention. It fits a logistic regression of a
// block's importance on what the heads of a stage's layers attend to.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/policy/scorer/calibrated_attention.hpp>

namespace lazyprune {
inline namespace v0 {

/// One prompt of a calibration. A feature is a (layer, head, query_reduction, block_pooling, counted_block).
struct calibration_prompt {
  std::size_t heads = 0;
  std::size_t blocks = 0;
  std::vector<float> numbers;         // (layers, heads, 3, 2, blocks): those of standardise_blocks
  std::vector<std::uint8_t> matters;  // (candidates): whether a block matters. The candidates are the first blocks

  static constexpr std::size_t numbers_of_head = 6, features_of_head = 2 * numbers_of_head;

  /// The feature's number for a block: that of the block, or of the block before it.
  float number(std::size_t feature, std::size_t block) const {
    const float* const of_blocks = &numbers[feature / 2 * blocks];
    return feature % 2 == 0 ? of_blocks[block] : block > 0 ? of_blocks[block - 1] : 0.0f;
  }
  std::size_t candidates() const { return matters.size(); }
};

/// A feature and its weight in the score.
struct weighted_feature {
  std::size_t feature;
  float weight;
};

/// The probe of a stage that reads this feature.
inline calibrated_probe probe_of(const weighted_feature& w, std::size_t heads, layer_id after) {
  const std::size_t kind = w.feature % calibration_prompt::features_of_head, head = w.feature / calibration_prompt::features_of_head;
  return {after,
          static_cast<layer_id>(head / heads),
          static_cast<std::uint32_t>(head % heads),
          static_cast<query_reduction>(kind / 4),
          static_cast<block_pooling>(kind / 2 % 2),
          w.weight,
          static_cast<counted_block>(kind % 2)};
}

inline float sum_of_block(const calibration_prompt& p, std::span<const weighted_feature> score, std::size_t block) {
  float sum = 0;
  for (const weighted_feature& w : score) sum += w.weight * p.number(w.feature, block);
  return sum;
}

/// The scores of the candidates, as calibrated_attention computes them with `following` (0: without).
inline std::vector<float> scores_of(const calibration_prompt& p, std::span<const weighted_feature> score, std::size_t following) {
  std::vector<float> sums(p.candidates());
  for (std::size_t b = 0; b < sums.size(); ++b) sums[b] = sum_of_block(p, score, b);
  std::vector<float> scores = sums;
  for (std::size_t b = 0; b < sums.size(); ++b)
    for (std::size_t distance = 1; distance <= std::min(following, b); ++distance)
      scores[b] = std::max(scores[b], sums[b - distance] - static_cast<float>(distance));
  return scores;
}

/// Returns the recall of a score, as a mean over the prompts: of the blocks that matter in a prompt, the share that ranks among the best
/// `share` of the candidates, or first. The last `left_out` candidates count neither as candidates nor as blocks that matter. Prompts in
/// which no block matters do not count. If no prompt counts, the result is 1.
inline double recall(std::span<const calibration_prompt> prompts, std::span<const weighted_feature> score, double share,
                     std::size_t following = 0, std::size_t left_out = 0) {
  double sum = 0;
  std::size_t counted = 0;
  for (const calibration_prompt& p : prompts) {
    std::vector<std::size_t> order(p.candidates() - std::min(left_out, p.candidates()));
    const auto all = static_cast<double>(std::ranges::count(std::span(p.matters).first(order.size()), 1));
    if (all == 0) continue;
    const std::vector<float> scores = scores_of(p, score, following);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize(
        std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(share * static_cast<double>(order.size()))), 1, order.size()));
    sum += static_cast<double>(std::ranges::count_if(order, [&](std::size_t b) { return p.matters[b] == 1; })) / all;
    ++counted;
  }
  return counted == 0 ? 1 : sum / static_cast<double>(counted);
}

/// The penalties of a fit.
struct fit_penalties {
  double square = 1e-3;    // times the sum of the squared weights
  double absolute = 5e-3;  // times the sum of their absolute values; it makes most weights 0
};

namespace detail {

/// A logistic regression in which the two classes have equal total weights. It is fitted by Newton steps, and each step's quadratic problem
/// is solved one weight at a time (Friedman, Hastie and Tibshirani 2010, "Regularization Paths for Generalized Linear Models via Coordinate
/// Descent").
class logistic_fit {
 public:
  /// `columns` (features, rows) and `wanted` (rows), 1 or 0, must outlive this object. The weights of the last `free` columns have no
  /// penalty.
  logistic_fit(std::span<const float> columns, std::span<const std::uint8_t> wanted, std::size_t free, const fit_penalties& penalties)
      : columns_(columns), wanted_(wanted), free_(free), penalties_(penalties), sums_(wanted.size()) {
    const auto all = static_cast<double>(wanted.size()), positive = static_cast<double>(std::ranges::count(wanted, 1));
    row_weight_ = {1 / all, (all - positive) / (positive * all)};
    weights_.resize(columns.size() / wanted.size());
  }

  std::vector<double> run() {
    double before = loss(weights_, bias_);
    for (int newton = 0; newton < 50; ++newton) {
      std::vector<double> next = weights_;
      double next_bias = bias_;
      solve_quadratic(next, next_bias);
      double now = loss(next, next_bias);
      for (int halved = 0; now > before && halved < 20; ++halved) {
        for (std::size_t f = 0; f < next.size(); ++f) next[f] = (next[f] + weights_[f]) / 2;
        next_bias = (next_bias + bias_) / 2;
        now = loss(next, next_bias);
      }
      if (now > before) break;
      weights_ = std::move(next);
      bias_ = next_bias;
      const bool done = before - now < 1e-6 * before;
      before = now;
      if (done) break;
    }
    return weights_;
  }

 private:
  std::span<const float> column(std::size_t f) const { return columns_.subspan(f * wanted_.size(), wanted_.size()); }
  bool is_free(std::size_t f) const { return f + free_ >= weights_.size(); }

  /// The mean loss of the rows and the penalties. Leaves the rows' sums in `sums_`.
  double loss(std::span<const double> weights, double bias) {
    std::ranges::fill(sums_, bias);
    double all = 0;
    for (std::size_t f = 0; f < weights.size(); ++f) {
      if (weights[f] == 0) continue;
      const std::span<const float> x = column(f);
      for (std::size_t r = 0; r < x.size(); ++r) sums_[r] += weights[f] * static_cast<double>(x[r]);
      if (!is_free(f)) all += penalties_.square * weights[f] * weights[f] + penalties_.absolute * std::abs(weights[f]);
    }
    for (std::size_t r = 0; r < sums_.size(); ++r) {
      const double against = wanted_[r] == 1 ? -sums_[r] : sums_[r];
      all += row_weight_[wanted_[r]] * (std::max(against, 0.0) + std::log1p(std::exp(-std::abs(against))));
    }
    return all;
  }

  /// Minimises the quadratic approximation of the loss at the weights from which `sums_` was computed.
  void solve_quadratic(std::vector<double>& weights, double& bias) {
    const std::size_t rows = wanted_.size();
    std::vector<double> curvature(rows), residual(rows);  // of a row; residual times curvature is the slope
    double all_curvature = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const double chance = 1 / (1 + std::exp(-sums_[r])), weight = row_weight_[wanted_[r]];
      const double spread = std::max(chance * (1 - chance), 1e-4);
      curvature[r] = weight * spread;
      residual[r] = (static_cast<double>(wanted_[r]) - chance) / spread;
      all_curvature += curvature[r];
    }
    std::vector<double> of_column(weights.size());
    for (std::size_t f = 0; f < weights.size(); ++f) {
      const std::span<const float> x = column(f);
      for (std::size_t r = 0; r < rows; ++r) of_column[f] += curvature[r] * static_cast<double>(x[r]) * static_cast<double>(x[r]);
    }
    // After a pass over all weights come passes over those that are not 0, until these rest.
    bool all = true;
    for (int pass = 0; pass < 100; ++pass) {
      double most = 0;
      for (std::size_t f = 0; f < weights.size(); ++f) {
        if (!all && weights[f] == 0) continue;
        const std::span<const float> x = column(f);
        double slope = 0;
        for (std::size_t r = 0; r < rows; ++r) slope += curvature[r] * residual[r] * static_cast<double>(x[r]);
        const double target = slope + of_column[f] * weights[f];
        const double shrunk = std::max(0.0, std::abs(target) - (is_free(f) ? 0 : penalties_.absolute));
        const double next = std::copysign(shrunk, target) / (of_column[f] + (is_free(f) ? 0 : 2 * penalties_.square) + 1e-12);
        const double moved = next - weights[f];
        if (moved == 0) continue;
        for (std::size_t r = 0; r < rows; ++r) residual[r] -= moved * static_cast<double>(x[r]);
        weights[f] = next;
        most = std::max(most, of_column[f] * moved * moved);
      }
      double moved = 0;
      for (std::size_t r = 0; r < rows; ++r) moved += curvature[r] * residual[r];
      moved /= all_curvature;
      for (double& x : residual) x -= moved;
      bias += moved;
      const bool rest = most < 1e-9;
      if (rest && all) return;
      all = rest;
    }
  }

  std::span<const float> columns_;
  std::span<const std::uint8_t> wanted_;
  std::size_t free_;
  fit_penalties penalties_;
  std::array<double, 2> row_weight_;  // of a block that does not matter, and of one that does
  std::vector<double> weights_, sums_;
  double bias_ = 0;
};

}  // namespace detail

/// Fits a logistic regression of `matters` on these features over the candidates of all prompts. The two classes have equal total weights.
/// If neighbouring blocks matter, only the first is an example: heads find where an answer begins, and `following` keeps the others. The
/// new score is added to the score `earlier`. So the fit has `earlier` as one more input, and divides all new weights by the weight of this
/// input. Returns the features with nonzero weights, the largest absolute weight first. If all candidates are of one class, the result is
/// empty.
inline std::vector<weighted_feature> fit(std::span<const calibration_prompt> prompts, std::span<const std::size_t> features,
                                         std::span<const weighted_feature> earlier = {}, const fit_penalties& penalties = {}) {
  std::vector<std::pair<const calibration_prompt*, std::size_t>> examples;  // blocks
  std::vector<std::uint8_t> wanted;
  for (const calibration_prompt& p : prompts)
    for (std::size_t b = 0; b < p.candidates(); ++b) {
      if (b > 0 && p.matters[b - 1] == 1 && p.matters[b] == 1) continue;
      examples.emplace_back(&p, b);
      wanted.push_back(p.matters[b]);
    }
  const auto positive = static_cast<std::size_t>(std::ranges::count(wanted, 1));
  if (positive == 0 || positive == wanted.size()) return {};
  std::vector<float> columns;
  columns.reserve((features.size() + 1) * wanted.size());
  for (const std::size_t f : features)
    for (const auto& [prompt, block] : examples) columns.push_back(prompt->number(f, block));
  if (!earlier.empty())
    for (const auto& [prompt, block] : examples) columns.push_back(sum_of_block(*prompt, earlier, block));
  const std::vector<double> weights = detail::logistic_fit(columns, wanted, earlier.empty() ? 0 : 1, penalties).run();
  const double unit = earlier.empty() ? 1 : std::max(weights.back(), 1e-3);  // a new score must not turn the earlier one around
  std::vector<weighted_feature> found;
  for (std::size_t f = 0; f < features.size(); ++f)
    if (weights[f] != 0) found.push_back({features[f], static_cast<float>(weights[f] / unit)});
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return std::abs(a.weight) > std::abs(b.weight); });
  return found;
}

/// The best `most` features of a fit, fitted again without the others.
inline std::vector<weighted_feature> fit_best(std::span<const calibration_prompt> prompts, std::span<const weighted_feature> all,
                                              std::size_t most, std::span<const weighted_feature> earlier = {}) {
  std::vector<std::size_t> features;
  for (const weighted_feature& w : all.first(std::min(most, all.size()))) features.push_back(w.feature);
  return fit(prompts, features, earlier, {.absolute = 0});
}

}  // namespace v0
}  // namespace lazyprune
