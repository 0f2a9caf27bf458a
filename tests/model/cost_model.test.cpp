// SPDX-License-Identifier: MIT
#include <lazyprune/model/cost_model.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace lazyprune;

namespace {

model_config small() {
  model_config c;
  c.vocabulary = 11;
  c.hidden = 6;
  c.layers = 3;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = 3;
  c.ffn = 7;
  return c;
}

/// Returns the cost of a layer, found by counting operations. There are two for each pair of a weight and a row, and two for each number of
/// a key or value that a head reads. Only the last `finish` rows compute more than keys and values. If a matrix is multiplied by a single
/// row, an operation costs `costs.single`.
double counted(const model_config& c, std::size_t rows, std::size_t finish, const cost_model& costs, std::size_t window = 1000) {
  double cost = 0;
  const double attention = costs.attention, kv = rows == 1 ? costs.single : costs.linear, rest = finish == 1 ? costs.single : costs.linear;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < c.hidden; ++i) cost += kv * 2 * static_cast<double>(2 * c.n_kv_heads * c.head_dim);
    if (row + finish < rows) continue;
    cost += rest * 2 * static_cast<double>(2 * c.hidden * c.n_heads * c.head_dim);  // queries and output
    for (std::size_t matrix = 0; matrix < 3; ++matrix) cost += rest * 2 * static_cast<double>(c.hidden * c.ffn);
    for (std::size_t seen = row + 1 - std::min(row + 1, window); seen <= row; ++seen)
      for (std::size_t head = 0; head < c.n_heads; ++head) cost += attention * 2 * static_cast<double>(2 * c.head_dim);  // key and value
  }
  return cost;
}

}  // namespace

TEST_CASE("the cost of a layer is the cost of the operations of its rows") {
  const model_config c = small();
  for (const std::size_t rows : {1u, 2u, 9u})
    for (const std::size_t finish : {std::size_t{1}, rows})
      for (const double attention : {0.5, 1.0, 3.0})
        for (const std::size_t window : {1u, 2u, 4u, 9u, 1000u}) {
          const cost_model costs{.linear = 2.0, .attention = attention, .single = 16.0};
          CHECK(costs.layer(c, rows, finish, window) == counted(c, rows, finish, costs, window));  // sums of halves, so exact
        }
}

TEST_CASE("each probability that a scorer reads costs two operations of attention") {
  for (const double attention : {0.5, 1.0, 3.0})
    CHECK(cost_model{.linear = 2.0, .attention = attention, .single = 16.0}.scoring(7 * 5 * 9) == attention * 2 * 7 * 5 * 9);
  CHECK(cost_model{}.scoring(0) == 0.0);
}

TEST_CASE("a decode step costs one row per layer, attention to all known tokens or to those in the window, and the logits") {
  model_config c = small();
  c.windows = {6, 0, 6};
  const cost_model costs{.linear = 2.0, .attention = 3.0, .single = 16.0};
  const auto last_row = [&](std::size_t known, std::size_t window) {  // the cost of the last of `known` rows, computed as a single row
    const cost_model alone{.linear = costs.single, .attention = costs.attention, .single = costs.single};
    return counted(c, known, known, alone, window) - (known > 1 ? counted(c, known - 1, known - 1, alone, window) : 0.0);
  };
  for (const std::size_t known : {1u, 2u, 6u, 7u, 40u})
    CHECK(costs.decode_step(c, known) == 2 * last_row(known, 6) + last_row(known, 1000) + costs.logits(c));
}

TEST_CASE("a window is assumed to hold the same share of the kept tokens as of all tokens") {
  model_config c = small();
  c.windows = {6, 0, 6};
  const cost_model costs;
  const std::vector<std::size_t> dense{9, 9, 9}, pruned{9, 9, 3};
  const double logits = costs.logits(c);
  CHECK(costs.prefill(c, dense) == counted(c, 9, 9, costs, 6) + counted(c, 9, 9, costs) + counted(c, 9, 1, costs, 6) + logits);
  CHECK(costs.prefill(c, pruned) == counted(c, 9, 9, costs, 6) + counted(c, 9, 9, costs) + counted(c, 3, 1, costs, 2) + logits);
}

TEST_CASE("a prefill costs its layers and one row of logits; the last layer has one output row") {
  const model_config c = small();
  const std::vector<std::size_t> rows{9, 5, 5};
  for (const cost_model& costs : {cost_model{}, cost_model{.linear = 0.5, .attention = 3.0, .single = 4.0}})
    CHECK(costs.prefill(c, rows) ==
          counted(c, 9, 9, costs) + counted(c, 5, 5, costs) + counted(c, 5, 1, costs) + costs.single * 2.0 * 6 * 11);
}

TEST_CASE("measured_costs finds the costs that the times were computed from") {
  const model_config c = small();
  const std::vector<std::size_t> rows{9, 9, 9}, fewer{9, 5, 2};
  const cost_model truth{.linear = 3e-9, .attention = 5e-9, .single = 4e-8};
  const double attention = cost_model{0, truth.attention, 0}.prefill(c, rows);
  const cost_model found = measured_costs(c, rows, truth.prefill(c, rows), attention, truth.logits(c));
  CHECK(found.linear == doctest::Approx(truth.linear));
  CHECK(found.attention == doctest::Approx(truth.attention));
  CHECK(found.single == doctest::Approx(truth.single));
  CHECK(found.prefill(c, fewer) == doctest::Approx(truth.prefill(c, fewer)));

  const std::vector<std::size_t> one{1, 1, 1};  // all rows are single, so `linear` is unknown and not needed
  const cost_model of_one = measured_costs(c, one, 1.0, 0.25, 0.5);
  CHECK(of_one.linear == 0.0);
  CHECK(of_one.single == 0.5 / (2.0 * 6 * 11));
}

TEST_CASE("the predicted speedup is the ratio of the costs of two prefills") {
  const model_config c = small();
  const std::vector<std::size_t> dense{9, 9, 9}, pruned{9, 5, 2};
  const cost_model costs;
  CHECK(predicted_speedup(costs, c, dense, dense) == 1.0);
  CHECK(predicted_speedup(costs, c, dense, pruned) == doctest::Approx(costs.prefill(c, dense) / costs.prefill(c, pruned)));
  CHECK(predicted_speedup(costs, c, dense, pruned) > 1.0);
}
