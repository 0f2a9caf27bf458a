// SPDX-License-Identifier: MIT
// The expected cost of prefills and decode steps, in floating-point operations, from the rows that each layer computes. The ratio of two
// such costs is the expected speedup, which is compared with the measured speedup. The costs of selecting and moving rows are left out.
// They explain a part of the gap between the two speedups.
//
// A product of a few rows with a weight matrix waits for its weights: it takes as long as reading them from memory. measured_costs assumes
// this only of a single row. measured_costs_with_memory assumes it of as many rows as compute in that time.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// The work of one layer in one step, summed over the sequences of a batch.
struct layer_work {
  std::size_t rows = 0;     // tokens that get keys and values
  std::size_t outputs = 0;  // those that are computed in full
  std::size_t pairs = 0;    // pairs of an output and a token that it attends to
  std::size_t keys = 0;     // tokens whose keys and values are read

  friend bool operator==(const layer_work&, const layer_work&) = default;
};

/// The cost of one operation, in any unit. If all members are 1, a cost is a number of floating-point operations.
struct cost_model {
  double linear = 1.0;       // in the linear layers
  double attention = 1.0;    // in the attention
  double single = 1.0;       // in a linear layer over one row, which reads the whole weight matrix for that row
  std::size_t few_rows = 1;  // a linear layer over at most this many rows costs as much as over one row
  double key_size = 1.0;     // the bytes of a number of keys and values, divided by those of a weight

  /// The cost of one layer over `rows` tokens. Only the last `outputs` rows are computed in full; the others get keys and values only. A
  /// row attends to itself and to the rows before it. With itself, these are at most `window` rows.
  double layer(const model_config& c, std::size_t rows, std::size_t outputs, std::size_t window) const {
    return products(c, rows, outputs) + attending(c, rows, outputs, window);
  }

  /// The cost of the logits of `tokens` tokens, computed by one product.
  double logits(const model_config& c, std::size_t tokens = 1) const {
    return product(tokens) * 2.0 * static_cast<double>(c.hidden) * static_cast<double>(c.vocabulary);
  }

  /// The cost of a first prefill that computes rows[l] tokens in layer l (statistics::prefill_rows), and the logits of its last token. The
  /// function does not know which tokens are kept. It assumes that a layer's window holds the same share of the kept tokens as of all
  /// tokens.
  double prefill(const model_config& c, std::span<const std::size_t> rows) const {
    const std::vector<std::size_t> sequence(rows.begin(), rows.end());
    return prefill(c, std::span(&sequence, 1));
  }

  /// The cost of the first prefills of a batch, (sequences, layers). The batch reads the weights once for all sequences.
  double prefill(const model_config& c, std::span<const std::vector<std::size_t>> batch) const {
    double cost = logits(c, batch.size());
    const std::size_t layers = batch.empty() ? 0 : batch.front().size();
    for (std::size_t l = 0; l < layers; ++l) {
      std::size_t all = 0;
      for (const std::vector<std::size_t>& rows : batch) {
        const std::size_t window =
            c.window(l) == 0 ? rows[l] : std::max<std::size_t>(1, std::min(c.window(l), rows[0]) * rows[l] / rows[0]);
        cost += attending(c, rows[l], l + 1 == layers ? 1 : rows[l], window);
        all += rows[l];
      }
      cost += products(c, all, l + 1 == layers ? batch.size() : all);
    }
    return cost;
  }

  /// The cost of the probabilities that a scorer reads: `pairs` of a query and a key, counted for each head or probe (the sum of
  /// layer_end::scored_pairs). Attention computes their scores in any case. Each pair then takes two operations: the probability is scaled,
  /// and added to a sum or a maximum.
  double scoring(std::size_t pairs) const { return attention * 2.0 * static_cast<double>(pairs); }

  /// The cost of a decode step of one token and of its logits. The sequence is dense, and has `known` tokens after the step.
  double decode_step(const model_config& c, std::size_t known) const {
    double cost = logits(c);
    for (std::size_t l = 0; l < c.layers; ++l) {
      const std::size_t seen = c.window(l) == 0 ? known : std::min(c.window(l), known);
      cost += layer(c, 1, 1, 1) + attention * static_cast<double>(seen - 1) * 4.0 * static_cast<double>(c.n_heads * c.head_dim);
    }
    return cost;
  }

  /// The cost of a layer of a decode step, without the logits. Attention costs its operations, or the reading of keys and values if that
  /// takes longer.
  double step_layer(const model_config& c, const layer_work& work) const {
    const double computing = attention * static_cast<double>(work.pairs * c.n_heads * c.head_dim);
    const double reading = single * key_size * static_cast<double>(work.keys * c.n_kv_heads * c.head_dim);
    return products(c, work.rows, work.outputs) + 4.0 * std::max(computing, reading);
  }

  friend bool operator==(const cost_model&, const cost_model&) = default;

 private:
  /// The cost of a product of `rows` rows with a matrix, for each operation of one row.
  double product(std::size_t rows) const {
    if (rows == 0) return 0.0;
    return rows <= few_rows ? single : linear * static_cast<double>(rows);
  }

  /// The cost of a layer's products.
  double products(const model_config& c, std::size_t rows, std::size_t outputs) const {
    const double hidden = static_cast<double>(c.hidden), ffn = static_cast<double>(c.ffn);
    const double q_size = static_cast<double>(c.n_heads * c.head_dim), kv_size = static_cast<double>(c.n_kv_heads * c.head_dim);
    return product(rows) * 2.0 * hidden * 2.0 * kv_size + product(outputs) * 2.0 * hidden * (2.0 * q_size + 3.0 * ffn);
  }

  /// The cost of a layer's attention.
  double attending(const model_config& c, std::size_t rows, std::size_t outputs, std::size_t window) const {
    const double all = static_cast<double>(rows), finished = static_cast<double>(outputs);
    const double before = all - finished, seen = std::min(all, static_cast<double>(window));
    const double growing = std::clamp(seen - before, 0.0, finished);  // output rows that see one token more than the row before
    const double pairs = growing * (2.0 * before + growing + 1.0) / 2.0 + (finished - growing) * seen;
    return attention * pairs * 4.0 * static_cast<double>(c.n_heads * c.head_dim);
  }
};

/// Returns cost_model::key_size. `kv_row_bytes` are the bytes of a token's keys and values in one layer, and `step_weight_bytes` those of
/// the weights that a decode step of one token reads.
inline double key_size_of(const model_config& c, std::size_t kv_row_bytes, std::size_t step_weight_bytes) {
  const double weights =
      cost_model{.attention = 0.0}.decode_step(c, 1) / 2.0;  // a step multiplies by each weight once, and adds the product
  const double keys = 2.0 * static_cast<double>(c.n_kv_heads * c.head_dim);
  return static_cast<double>(kv_row_bytes) / keys / (static_cast<double>(step_weight_bytes) / weights);
}

namespace detail {

/// measured_costs, with the assumption that linear layers over at most `few_rows` rows wait for their weights.
inline cost_model costs_if_few(std::size_t few_rows, const model_config& c, std::span<const std::vector<std::size_t>> batch, double seconds,
                               double attention, double logits) {
  const auto share = [](double cost, double operations) { return operations > 0 ? std::max(cost, 0.0) / operations : 0.0; };
  const auto operations = [&](double linear, double attending, double single) {
    return cost_model{linear, attending, single, few_rows}.prefill(c, batch);
  };
  const double single = share(logits, cost_model{}.logits(c));
  return {.linear = share(seconds - attention - operations(0, 0, single), operations(1, 0, 0)),
          .attention = share(attention, operations(0, 1, 0)),
          .single = single,
          .few_rows = few_rows};
}

}  // namespace detail

/// Returns costs in seconds per operation, measured in the first prefills of a batch, (sequences, layers): the rows of each layer. The
/// prefills took `seconds` in all. Attention took `attention` seconds of them, and the head's product took `logits` seconds. The rest
/// counts as time of the linear layers, although norms, RoPE and additions take a part of it. The head's product has one row for each
/// sequence. It waits for its weights, and so does every linear layer over as many rows or fewer. All others are assumed to wait for no
/// weights.
inline cost_model measured_costs(const model_config& c, std::span<const std::vector<std::size_t>> batch, double seconds, double attention,
                                 double logits) {
  return detail::costs_if_few(batch.size(), c, batch, seconds, attention, logits);
}

/// Returns the costs for which every linear layer takes the larger of two times: the time that its rows compute, and the time of reading
/// its weights. The head's product measures the rate of reading, as in measured_costs. If all linear layers of these prefills waited for
/// their weights, the rate of computing is unknown. `linear` is then the largest cost for which they wait.
inline cost_model measured_costs_with_memory(const model_config& c, std::span<const std::vector<std::size_t>> batch, double seconds,
                                             double attention, double logits) {
  std::size_t most = 1;  // rows of the largest product
  for (std::size_t l = 0; !batch.empty() && l < batch.front().size(); ++l) {
    std::size_t rows = 0;
    for (const std::vector<std::size_t>& of_sequence : batch) rows += of_sequence[l];
    most = std::max(most, rows);
  }
  // Each turn finds more linear layers that wait for their weights. They leave less time for computing the others, so `linear` falls.
  cost_model costs = measured_costs(c, batch, seconds, attention, logits);
  while (costs.few_rows < most) {
    const bool all_wait = costs.linear * static_cast<double>(most) <= costs.single;
    const std::size_t few_rows = all_wait ? most : static_cast<std::size_t>(costs.single / costs.linear);
    if (few_rows <= costs.few_rows) return costs;
    costs = detail::costs_if_few(few_rows, c, batch, seconds, attention, logits);
  }
  costs.linear = costs.single / static_cast<double>(most);
  return costs;
}

/// Returns the expected speedup of a pruned prefill over the dense prefill.
inline double predicted_speedup(const cost_model& costs, const model_config& c, std::span<const std::size_t> dense_rows,
                                std::span<const std::size_t> rows) {
  return costs.prefill(c, dense_rows) / costs.prefill(c, rows);
}

}  // namespace v0
}  // namespace lazyprune
