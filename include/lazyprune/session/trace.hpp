// SPDX-License-Identifier: MIT
// The record of a run: the tokens that every layer of every step saw, computed and revived. The engine fills the record, not the session.
// Two records of the same input can be compared (eval/trace_compare.hpp). A record can be written to a file (files/trace_file.hpp).
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/core/plan.hpp>

namespace lazyprune {
inline namespace v0 {

/// One layer of one step. The lists of positions ascend. `revived` is a subset of `rows`, and `rows` is a subset of `active`.
struct layer_trace {
  std::vector<position> active;   // the tokens that took part
  std::vector<position> rows;     // the tokens that were computed
  std::vector<position> revived;  // the tokens whose rows were read from the aux store
  std::vector<float> scores{};    // (active), after this layer; empty if none were computed or recorded
  friend bool operator==(const layer_trace&, const layer_trace&) = default;
};

/// The rows of a layer that come back from the aux store, ascending.
inline std::vector<position> revived_rows(const layer_plan& plan) {
  std::vector<position> revived;
  for (std::size_t i = 0; i < plan.rows.size(); ++i)
    if (plan.sources[i].from == row_source::origin::stored) revived.push_back(plan.rows[i]);
  return revived;
}

/// Adds a plan to a layer's record. The chunks of a prompt and the step that ends it share one record.
inline void add_plan(layer_trace& to, const layer_plan& plan) {
  const auto add = [](std::vector<position>& list, std::span<const position> more) {  // both ascending
    std::vector<position> all;
    all.reserve(list.size() + more.size());
    std::ranges::set_union(list, more, std::back_inserter(all));
    list = std::move(all);
  };
  add(to.active, plan.active);
  add(to.rows, plan.rows);
  add(to.revived, revived_rows(plan));
}

/// One forward pass over its new tokens.
struct step_trace {
  std::size_t step;                 // from 0
  std::vector<token_id> tokens;     // the new tokens of this step
  std::vector<layer_trace> layers;  // (layers)
  token_id next;                    // the arg-max of the logits; the lower id among equal logits
  std::vector<double> logits;       // (vocabulary); empty if not recorded
  /// (layers - 1); empty if not recorded. margin[i] belongs to the selection after layer i. It is (least kept - best dropped) / |least
  /// kept|, in scores. nullopt: nothing was chosen by score.
  std::vector<std::optional<double>> margin;
  friend bool operator==(const step_trace&, const step_trace&) = default;
};

}  // namespace v0
}  // namespace lazyprune
