// SPDX-License-Identifier: MIT
// The expected cost of a prefill, in floating-point operations, from the rows that each layer computes. The ratio of two such costs is
// the expected speedup, which is compared with the measured speedup. The costs of selecting and moving rows are left out. They explain a
// part of the gap between the two speedups.
#pragma once

#include <algorithm>
#include <span>

#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// The cost of one operation, in any unit. If all members are 1, a cost is a number of floating-point operations.
struct cost_model {
  double linear = 1.0;     // in the linear layers
  double attention = 1.0;  // in the attention
  double single = 1.0;     // in a linear layer over one row, which reads the whole weight matrix for that row

  /// The cost of one layer over `rows` tokens. Only the last `outputs` rows are computed in full; the others get keys and values only. A
  /// row attends to itself and to the rows before it. With itself, these are at most `window` rows.
  double layer(const model_config& c, std::size_t rows, std::size_t outputs, std::size_t window) const {
    const double hidden = static_cast<double>(c.hidden), ffn = static_cast<double>(c.ffn);
    const double q_size = static_cast<double>(c.n_heads * c.head_dim), kv_size = static_cast<double>(c.n_kv_heads * c.head_dim);
    const double all = static_cast<double>(rows), finished = static_cast<double>(outputs);
    const double before = all - finished, seen = std::min(all, static_cast<double>(window));
    const double growing = std::clamp(seen - before, 0.0, finished);  // output rows that see one token more than the row before
    const double pairs = growing * (2.0 * before + growing + 1.0) / 2.0 + (finished - growing) * seen;
    return product(rows) * all * 2.0 * hidden * 2.0 * kv_size + product(outputs) * finished * 2.0 * hidden * (2.0 * q_size + 3.0 * ffn) +
           attention * pairs * 4.0 * q_size;
  }

  /// The cost of the logits of one token.
  double logits(const model_config& c) const { return single * 2.0 * static_cast<double>(c.hidden) * static_cast<double>(c.vocabulary); }

  /// The cost of a first prefill that computes rows[l] tokens in layer l (statistics::prefill_rows), and the logits of its last token. The
  /// function does not know which tokens are kept. It assumes that a layer's window holds the same share of the kept tokens as of all
  /// tokens.
  double prefill(const model_config& c, std::span<const std::size_t> rows) const {
    double cost = logits(c);
    for (std::size_t l = 0; l < rows.size(); ++l) {
      const std::size_t window = c.window(l) == 0 ? rows[l] : std::max<std::size_t>(1, std::min(c.window(l), rows[0]) * rows[l] / rows[0]);
      cost += layer(c, rows[l], l + 1 == rows.size() ? 1 : rows[l], window);
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

  friend bool operator==(const cost_model&, const cost_model&) = default;

 private:
  double product(std::size_t rows) const { return rows == 1 ? single : linear; }
};

/// Returns costs in seconds per operation, measured in a first prefill that computed rows[l] tokens in layer l. The prefill took `seconds`
/// in all. Attention took `attention` seconds of them, and the head's product took `logits` seconds. The rest counts as time of the linear
/// layers, although norms, RoPE and additions take a part of it.
inline cost_model measured_costs(const model_config& c, std::span<const std::size_t> rows, double seconds, double attention,
                                 double logits) {
  const auto share = [](double cost, double operations) { return operations > 0 ? std::max(cost, 0.0) / operations : 0.0; };
  const auto operations = [&](double linear, double attending, double single) {
    return cost_model{linear, attending, single}.prefill(c, rows);
  };
  const double single = share(logits, cost_model{}.logits(c));
  return {.linear = share(seconds - attention - operations(0, 0, single), operations(1, 0, 0)),
          .attention = share(attention, operations(0, 1, 0)),
          .single = single};
}

/// Returns the expected speedup of a pruned prefill over the dense prefill.
inline double predicted_speedup(const cost_model& costs, const model_config& c, std::span<const std::size_t> dense_rows,
                                std::span<const std::size_t> rows) {
  return costs.prefill(c, dense_rows) / costs.prefill(c, rows);
}

}  // namespace v0
}  // namespace lazyprune
