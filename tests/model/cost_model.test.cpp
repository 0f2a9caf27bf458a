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

enum class waiting { single_rows, all };  // the products that wait for their weights

/// Returns the cost of a product of `rows` rows with a matrix of `weights` numbers. There are two operations for each pair of a weight and
/// a row. Reading the weights takes as long as a product of a single row. A product that waits for its weights takes at least as long.
double product(std::size_t rows, std::size_t weights, const cost_model& costs, waiting who) {
  double computing = 0;
  for (std::size_t row = 0; row < rows; ++row) computing += costs.linear * 2 * static_cast<double>(weights);
  const double reading = costs.single * 2 * static_cast<double>(weights);
  if (rows == 1) return reading;
  return who == waiting::all && rows > 0 ? std::max(computing, reading) : computing;
}

/// Returns the cost of a layer's products, matrix by matrix. Only `finish` of the rows compute more than keys and values.
double multiplied(const model_config& c, std::size_t rows, std::size_t finish, const cost_model& costs, waiting who) {
  const std::size_t q_size = c.n_heads * c.head_dim, kv_size = c.n_kv_heads * c.head_dim;
  double cost = 0;
  for (std::size_t matrix = 0; matrix < 2; ++matrix) {
    cost += product(rows, c.hidden * kv_size, costs, who);   // keys, values
    cost += product(finish, c.hidden * q_size, costs, who);  // queries, output
  }
  for (std::size_t matrix = 0; matrix < 3; ++matrix) cost += product(finish, c.hidden * c.ffn, costs, who);
  return cost;
}

/// Returns the cost of the attention of a layer: two operations for each number of a key or value that a head reads. Only the last `finish`
/// rows attend.
double attended(const model_config& c, std::size_t rows, std::size_t finish, const cost_model& costs, std::size_t window = everything) {
  double cost = 0;
  for (std::size_t row = rows - finish; row < rows; ++row)
    for (std::size_t seen = row + 1 - std::min(row + 1, window); seen <= row; ++seen)
      for (std::size_t head = 0; head < c.n_heads; ++head)
        cost += costs.attention * 2 * static_cast<double>(2 * c.head_dim);  // key and value
  return cost;
}

/// Returns the cost of a layer in which only products of a single row wait for their weights.
double counted(const model_config& c, std::size_t rows, std::size_t finish, const cost_model& costs, std::size_t window = everything) {
  return multiplied(c, rows, finish, costs, waiting::single_rows) + attended(c, rows, finish, costs, window);
}

/// Returns the cost of the prefills of a batch in which all products wait for their weights. Each layer multiplies the rows of all
/// sequences at once.
double counted_with_memory(const model_config& c, const std::vector<std::vector<std::size_t>>& batch, const cost_model& costs) {
  double cost = product(batch.size(), c.hidden * c.vocabulary, costs, waiting::all);
  for (std::size_t l = 0; l < c.layers; ++l) {
    const bool last = l + 1 == c.layers;
    std::size_t rows = 0;
    for (const std::vector<std::size_t>& sequence : batch) {
      rows += sequence[l];
      cost += attended(c, sequence[l], last ? 1 : sequence[l], costs);
    }
    cost += multiplied(c, rows, last ? batch.size() : rows, costs, waiting::all);
  }
  return cost;
}

/// The times of a prefill of a batch, as bench measures them.
struct times {
  double all, attention, logits;
};

/// Returns the times that a batch takes with these costs, if all products wait for their weights.
times times_of(const model_config& c, const std::vector<std::vector<std::size_t>>& batch, const cost_model& costs) {
  return {counted_with_memory(c, batch, costs), counted_with_memory(c, batch, {.linear = 0, .attention = costs.attention, .single = 0}),
          product(batch.size(), c.hidden * c.vocabulary, costs, waiting::all)};
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

TEST_CASE("a product of few rows costs as much as one of a single row") {
  const model_config c = small();
  const cost_model costs{.linear = 2.0, .attention = 0.5, .single = 32.0, .few_rows = 16};
  for (const std::size_t rows : {1u, 2u, 15u, 16u, 17u, 18u, 200u})  // 16 rows compute for as long as their weights are read
    for (const std::size_t finish : {std::size_t{1}, std::size_t{2}, rows}) {
      if (finish > rows) continue;
      const double expected = multiplied(c, rows, finish, costs, waiting::all) + attended(c, rows, finish, costs);
      CHECK(costs.layer(c, rows, finish, everything) == expected);
    }
  const std::vector<std::vector<std::size_t>> batch{{9, 9, 9}, {9, 5, 2}, {40, 7, 7}};
  CHECK(costs.prefill(c, batch) == counted_with_memory(c, batch, costs));
  CHECK(costs.prefill(c, batch[1]) == counted_with_memory(c, {batch[1]}, costs));
  CHECK(costs.logits(c, 3) == costs.logits(c));
  CHECK(costs.logits(c, 17) == 17 * 2.0 * 2 * 6 * 11);
}

TEST_CASE("if all costs are 1, the cost of a batch is the number of operations of its sequences") {
  const model_config c = small();
  const cost_model one;
  const std::vector<std::vector<std::size_t>> batch{{9, 9, 9}, {9, 5, 2}, {1, 1, 1}};
  CHECK(one.prefill(c, batch) == one.prefill(c, batch[0]) + one.prefill(c, batch[1]) + one.prefill(c, batch[2]));
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
    CHECK(costs.decode_step(c, known) == 2 * last_row(known, 6) + last_row(known, everything) + costs.logits(c));
}

TEST_CASE("a layer of a step costs its products, and its attention or the reading of keys and values, whichever takes longer") {
  const model_config c = small();
  const double q_size = static_cast<double>(c.n_heads * c.head_dim), kv_size = static_cast<double>(c.n_kv_heads * c.head_dim);
  const cost_model reads{.linear = 2.0, .attention = 0.001, .single = 16.0, .few_rows = 8};
  const cost_model computes{.linear = 2.0, .attention = 3.0, .single = 0.001, .few_rows = 8};
  const layer_work work{.rows = 5, .outputs = 3, .pairs = 90, .keys = 40};
  const auto without_attention = [&](const cost_model& costs) { return costs.step_layer(c, {.rows = 5, .outputs = 3}); };
  CHECK(reads.step_layer(c, work) == doctest::Approx(without_attention(reads) + 16.0 * 40 * 4 * kv_size));
  cost_model quantized = reads;
  quantized.key_size = 3.5;
  CHECK(quantized.step_layer(c, work) == doctest::Approx(without_attention(reads) + 3.5 * 16.0 * 40 * 4 * kv_size));
  CHECK(computes.step_layer(c, work) == doctest::Approx(without_attention(computes) + 3.0 * 90 * 4 * q_size));
  // Up to few_rows rows, products cost as much as over one row.
  CHECK(without_attention(reads) == reads.step_layer(c, {.rows = 1, .outputs = 1}));
  CHECK(reads.step_layer(c, {.rows = 9, .outputs = 9}) > 1.1 * without_attention(reads));
  CHECK(cost_model{}.step_layer(c, {.rows = 1, .outputs = 1, .pairs = 7, .keys = 7}) ==
        doctest::Approx(cost_model{}.decode_step(c, 7) / static_cast<double>(c.layers) -
                        cost_model{}.logits(c) / static_cast<double>(c.layers)));
}

TEST_CASE("key_size_of compares the bytes of a number of keys and values with those of a weight") {
  const model_config c = small();
  const std::size_t kv_numbers = 2 * c.n_kv_heads * c.head_dim, q_size = c.n_heads * c.head_dim;
  // The products of a layer: q and the output, keys and values, and the three of the feed-forward part. The head is one more.
  const std::size_t weights = c.layers * c.hidden * (2 * q_size + kv_numbers + 3 * c.ffn) + c.hidden * c.vocabulary;
  CHECK(key_size_of(c, 4 * kv_numbers, 4 * weights) == doctest::Approx(1.0));
  CHECK(key_size_of(c, 4 * kv_numbers, 2 * weights) == doctest::Approx(2.0));
  CHECK(key_size_of(c, kv_numbers, 4 * weights) == doctest::Approx(0.25));
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
  const std::vector<std::vector<std::size_t>> dense{{9, 9, 9}};
  const std::vector<std::size_t> fewer{9, 5, 2};
  const cost_model truth{.linear = 3e-9, .attention = 5e-9, .single = 4e-8};
  const double attention = cost_model{0, truth.attention, 0}.prefill(c, dense);
  const cost_model found = measured_costs(c, dense, truth.prefill(c, dense), attention, truth.logits(c));
  CHECK(found.linear == doctest::Approx(truth.linear));
  CHECK(found.attention == doctest::Approx(truth.attention));
  CHECK(found.single == doctest::Approx(truth.single));
  CHECK(found.few_rows == 1);
  CHECK(found.prefill(c, fewer) == doctest::Approx(truth.prefill(c, fewer)));

  const std::vector<std::vector<std::size_t>> one{{1, 1, 1}};  // all rows are single, so `linear` is unknown and not needed
  const cost_model of_one = measured_costs(c, one, 1.0, 0.25, 0.5);
  CHECK(of_one.linear == 0.0);
  CHECK(of_one.single == 0.5 / (2.0 * 6 * 11));
}

TEST_CASE("measured_costs_with_memory finds the costs that the times were computed from, also if some layers waited for their weights") {
  const model_config c = small();
  const cost_model truth{.linear = 3e-9, .attention = 5e-9, .single = 4e-8};  // 13.3 rows compute for as long as their weights are read
  for (const std::vector<std::vector<std::size_t>>& measured : std::vector<std::vector<std::vector<std::size_t>>>{
           {{512, 512, 512}}, {{14, 14, 14}}, {{512, 30, 2}}, {{20, 13, 1}}, {{512, 2, 2}}, {{9, 9, 9}, {9, 9, 9}, {9, 9, 9}}}) {
    const times t = times_of(c, measured, truth);
    const cost_model found = measured_costs_with_memory(c, measured, t.all, t.attention, t.logits);
    CHECK(found.linear == doctest::Approx(truth.linear));
    CHECK(found.attention == doctest::Approx(truth.attention));
    CHECK(found.single == doctest::Approx(truth.single));
    CHECK(found.few_rows == 13);
    for (const std::size_t rows : {1u, 2u, 12u, 13u, 14u, 15u, 100u, 2000u}) {
      const std::vector<std::vector<std::size_t>> other{{2000, rows, rows}};
      CHECK(found.prefill(c, other) == doctest::Approx(counted_with_memory(c, other, truth)));
    }
  }
}

TEST_CASE("measured_costs_with_memory: if all layers waited for their weights, more rows than these may compute") {
  const model_config c = small();
  const cost_model truth{.linear = 3e-9, .attention = 5e-9, .single = 4e-8};
  for (const std::size_t rows : {2u, 9u, 13u}) {
    const std::vector<std::vector<std::size_t>> measured{{rows, rows, rows}}, pruned{{rows, 1, 1}}, twice{{2 * rows, 2 * rows, 2 * rows}};
    const times t = times_of(c, measured, truth);
    const cost_model found = measured_costs_with_memory(c, measured, t.all, t.attention, t.logits);
    CHECK(found.prefill(c, measured) == doctest::Approx(t.all));
    CHECK(found.prefill(c, pruned) == doctest::Approx(counted_with_memory(c, pruned, truth)));
    CHECK(found.prefill(c, twice) > found.prefill(c, measured));
  }
  const std::vector<std::vector<std::size_t>> one{{1, 1, 1}};
  CHECK(measured_costs_with_memory(c, one, 1.0, 0.25, 0.5).single == 0.5 / (2.0 * 6 * 11));

  // The layers took less time than reading their weights at the head's rate, as they may if they fit into a cache.
  const std::vector<std::vector<std::size_t>> cached{{9, 9, 9}};
  const cost_model found = measured_costs_with_memory(c, cached, 1.0, 0.0, 0.9);
  CHECK(found.few_rows == 9);
  CHECK(found.linear == doctest::Approx(found.single / 9));
}

TEST_CASE("a batch reads the weights once for all of its sequences") {
  const model_config c = small();
  const cost_model truth{.linear = 3e-9, .attention = 5e-9, .single = 4e-8};
  // Four sequences of five rows compute; each alone would wait for its weights. The head's product has four rows.
  const std::vector<std::vector<std::size_t>> dense(4, {5, 5, 5}), pruned(4, {5, 2, 1});
  const times t = times_of(c, dense, truth);
  const cost_model alone = measured_costs(c, dense, t.all, t.attention, t.logits);
  const cost_model found = measured_costs_with_memory(c, dense, t.all, t.attention, t.logits);
  CHECK(alone.few_rows == 4);
  CHECK(alone.linear == doctest::Approx(truth.linear).epsilon(1e-3));
  CHECK(found.few_rows == 13);
  CHECK(found.prefill(c, dense) == doctest::Approx(t.all));
  CHECK(found.prefill(c, pruned) == doctest::Approx(counted_with_memory(c, pruned, truth)));

  // Twenty rows of the head compute for longer than its weights are read. Every product of the batch has at least as many rows.
  const std::vector<std::vector<std::size_t>> many(20, {5, 5, 5}), least(20, {5, 1, 1});
  const times of_many = times_of(c, many, truth);
  const cost_model large = measured_costs_with_memory(c, many, of_many.all, of_many.attention, of_many.logits);
  CHECK(large.few_rows == 20);
  CHECK(large.linear == doctest::Approx(truth.linear));
  CHECK(large.prefill(c, least) == doctest::Approx(counted_with_memory(c, least, truth)));
}

TEST_CASE("the predicted speedup is the ratio of the costs of two prefills") {
  const model_config c = small();
  const std::vector<std::size_t> dense{9, 9, 9}, pruned{9, 5, 2};
  const cost_model costs;
  CHECK(predicted_speedup(costs, c, dense, dense) == 1.0);
  CHECK(predicted_speedup(costs, c, dense, pruned) == doctest::Approx(costs.prefill(c, dense) / costs.prefill(c, pruned)));
  CHECK(predicted_speedup(costs, c, dense, pruned) > 1.0);
}
