// SPDX-License-Identifier: MIT
#include <lazyprune/eval/head_calibration.hpp>

#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

constexpr std::size_t heads = 4, layers = 2, blocks = 40, features = layers * heads * calibration_prompt::features_of_head;
constexpr std::size_t strong = 10, weak = 41;

/// Makes prompts with noise in all features. `strong` also shows whether a block matters. `weak` shows the opposite, less clearly; it
/// counts for the next block.
std::vector<calibration_prompt> some_prompts(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise;
  std::vector<calibration_prompt> prompts;
  for (; count > 0; --count) {
    calibration_prompt p{.heads = heads, .blocks = blocks, .numbers = std::vector<float>(features / 2 * blocks), .matters = {}};
    for (float& x : p.numbers) x = noise(random);
    p.matters.resize(blocks - 3);  // the last three blocks are no candidates
    for (std::size_t b = 0; b < p.matters.size(); ++b) {
      p.matters[b] = random() % 10 == 0;
      if (p.matters[b] == 0) continue;
      p.numbers[strong / 2 * blocks + b] += 4;
      if (b > 0) p.numbers[weak / 2 * blocks + b - 1] -= 2;
    }
    prompts.push_back(std::move(p));
  }
  return prompts;
}

std::vector<std::size_t> all_features() {
  std::vector<std::size_t> all(features);
  for (std::size_t f = 0; f < features; ++f) all[f] = f;
  return all;
}

/// The mean loss of a logistic regression with equally heavy classes and the penalties, by the definition. A block does not count if it and
/// the block before it matter.
double loss(const std::vector<calibration_prompt>& prompts, const std::vector<double>& weights, double bias,
            const fit_penalties& penalties) {
  double count = 0, positive = 0, sum = 0;
  const auto counts = [](const calibration_prompt& p, std::size_t b) { return b == 0 || p.matters[b - 1] + p.matters[b] < 2; };
  for (const calibration_prompt& p : prompts)
    for (std::size_t b = 0; b < p.matters.size(); ++b)
      if (counts(p, b)) count += 1, positive += p.matters[b];
  for (const calibration_prompt& p : prompts)
    for (std::size_t b = 0; b < p.matters.size(); ++b) {
      if (!counts(p, b)) continue;
      double x = bias;
      for (std::size_t f = 0; f < features; ++f) x += weights[f] * static_cast<double>(p.number(f, b));
      sum += p.matters[b] == 1 ? (count - positive) / positive * std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    }
  sum /= count;
  for (const double w : weights) sum += penalties.square * w * w + penalties.absolute * std::abs(w);
  return sum;
}

}  // namespace

TEST_CASE("a fit finds the features that show which blocks matter") {
  const auto prompts = some_prompts(40, 1), others = some_prompts(20, 2);
  const std::vector<weighted_feature> found = fit(prompts, all_features(), {}, {.absolute = 2e-2});
  REQUIRE(found.size() >= 2);
  CHECK(found[0].feature == strong);
  CHECK(found[0].weight > 0);
  CHECK(found[1].feature == weak);
  CHECK(found[1].weight < 0);
  CHECK(recall(others, found, 0.2) > 0.95);
  CHECK(recall(others, std::vector{weighted_feature{7, 1.0f}}, 0.2) < 0.4);
  const std::vector<weighted_feature> best = fit_best(prompts, found, 1);
  REQUIRE(best.size() == 1);
  CHECK(best[0].feature == strong);
  CHECK(fit(prompts, all_features(), {}, {.absolute = 10}).empty());
}

TEST_CASE("a fit has the smallest loss") {
  const auto prompts = some_prompts(10, 3);
  for (const fit_penalties penalties : {fit_penalties{}, fit_penalties{.square = 1e-2, .absolute = 0}}) {
    std::vector<double> weights(features);
    for (const weighted_feature& w : fit(prompts, all_features(), {}, penalties)) weights[w.feature] = static_cast<double>(w.weight);
    double bias = 0, best = loss(prompts, weights, 0, penalties);  // the fit does not return its bias
    for (double step = 16; step > 1e-6; step /= 1.5)
      for (const double next : {bias - step, bias + step})
        if (const double now = loss(prompts, weights, next, penalties); now < best) best = now, bias = next;
    for (std::size_t f = 0; f < features; ++f)
      for (const double by : {-0.01, 0.01}) {
        std::vector<double> moved = weights;
        moved[f] += by;
        CHECK(loss(prompts, moved, bias, penalties) > best - 1e-6);
      }
  }
}

TEST_CASE("a later stage's score is added to the earlier one") {
  const auto prompts = some_prompts(40, 4);
  const std::vector<weighted_feature> earlier{{weak, -1.0f}};
  std::vector<std::size_t> rest = all_features();
  std::erase(rest, weak);
  const std::vector<weighted_feature> added = fit(prompts, rest, earlier, {.absolute = 2e-2});
  REQUIRE(!added.empty());
  CHECK(added[0].feature == strong);
  std::vector<weighted_feature> both = added;
  both.push_back(earlier[0]);
  const auto others = some_prompts(20, 5);
  CHECK(recall(others, both, 0.1) > recall(others, added, 0.1));
}

TEST_CASE("recall counts the blocks that matter among the best candidates; prompts without such blocks do not count") {
  calibration_prompt p{.heads = 1, .blocks = 5, .numbers = {5, 4, 3, 2, 9}, .matters = {0, 1, 0, 1}};
  p.numbers.resize(calibration_prompt::features_of_head / 2 * 5);
  const std::vector<weighted_feature> score{{0, 1.0f}};
  calibration_prompt nothing = p;
  nothing.matters = {0, 0, 0, 0};
  const std::vector<calibration_prompt> prompts{p, nothing};
  CHECK(recall(prompts, score, 0.1) == 0.0);  // at least one block is kept
  CHECK(recall(prompts, score, 0.5) == 0.5);
  CHECK(recall(prompts, score, 1.0) == 1.0);
  for (const double share : {0.1, 0.5, 1.0}) CHECK(recall(prompts, score, share, 0, prompts[0].candidates()) == 1.0);  // none counts
  CHECK(recall(prompts, score, 0.5, 0, 1) == 1.0);  // of the first three blocks, two are kept
  CHECK(recall(std::span(prompts).last(1), score, 0.5) == 1.0);
  CHECK(fit(std::span(prompts).last(1), std::vector<std::size_t>{0}).empty());
}

TEST_CASE("a block's score is the largest of its own and those of the blocks before it, less 1 for each block of distance") {
  calibration_prompt p{.heads = 1, .blocks = 6, .numbers = {5, 0, 1, 4.5f, 0, 0}, .matters = {1, 0, 1, 0, 0}};
  p.numbers.resize(calibration_prompt::features_of_head / 2 * 6);
  const std::vector<weighted_feature> score{{0, 1.0f}}, for_next{{1, 1.0f}};
  CHECK(scores_of(p, score, 0) == std::vector<float>{5, 0, 1, 4.5f, 0});
  CHECK(scores_of(p, score, 1) == std::vector<float>{5, 4, 1, 4.5f, 3.5f});
  CHECK(scores_of(p, score, 2) == std::vector<float>{5, 4, 3, 4.5f, 3.5f});
  CHECK(scores_of(p, for_next, 0) == std::vector<float>{0, 5, 0, 1, 4.5f});
  const std::vector<calibration_prompt> one{p};
  CHECK(recall(one, score, 0.6, 0) == 1.0);
  CHECK(recall(one, score, 0.6, 2) == 0.5);  // the best three are blocks 0, 3 and 1; block 2, which matters, is fourth
}

TEST_CASE("a feature names its probe") {
  const calibrated_probe expected{7, 2, 3, query_reduction::max, block_pooling::mean, 0.5f, counted_block::next};
  CHECK(probe_of({(2 * heads + 3) * 12 + 7, 0.5f}, heads, 7) == expected);
}
