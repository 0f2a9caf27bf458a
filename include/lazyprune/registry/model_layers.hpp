// SPDX-License-Identifier: MIT
// The flags of a policy are checked against the layers of a model: their number, and which of them see all tokens. If a layer sees only a
// window, its attention says nothing about distant tokens. A policy that scores by this attention would drop all distant tokens.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/core/evidence.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/policy/schedule/any_schedule.hpp>
#include <lazyprune/policy/schedule/stages.hpp>

namespace lazyprune {
inline namespace v0 {

struct model_layers {
  layer_id count = 0;
  /// The numbers of done layers after which tokens may be dropped by attention, ascending. The constructor leaves out 0 and `count`,
  /// because nothing is pruned before the first or after the last layer. Without a value, tokens may be dropped after any number of layers.
  std::optional<std::vector<layer_id>> attention_after{};

  /// Layers that all see the same tokens.
  model_layers(layer_id layers) : count(layers) {}
  model_layers(layer_id layers, std::optional<std::vector<layer_id>> after) : count(layers), attention_after(std::move(after)) {
    if (attention_after) std::erase_if(*attention_after, [&](layer_id done) { return done == 0 || done >= count; });
  }

  bool scores_attention_after(layer_id done) const {
    return !attention_after || std::ranges::find(*attention_after, done) != attention_after->end();
  }

  /// The `expected` text of an error: "pruning after 6, 12 or 18 layers, when the layer just done sees all tokens".
  std::string text() const {
    std::string text;
    for (std::size_t i = 0; attention_after && i < attention_after->size(); ++i)
      text.append(i == 0 ? "" : i + 1 == attention_after->size() ? " or " : ", ").append(std::to_string((*attention_after)[i]));
    if (text.empty()) return "no pruning by attention, because only the last layer sees all tokens";
    return "pruning after " + text + " layers, when the layer just done sees all tokens";
  }

  friend bool operator==(const model_layers&, const model_layers&) = default;
};

/// Returns whether the scorer needs attention probabilities.
constexpr bool scores_attention(const scorer_needs& needs) {
  return needs.kind == evidence_kind::attention || needs.kind == evidence_kind::window || needs.kind == evidence_kind::values ||
         needs.kind == evidence_kind::probes;
}

/// Moves each stage to the nearest layer after which it is allowed. If two layers are equally near, the stage moves to the later one. A
/// stage is left out if its new layer already has a stage, or if no layer allows a stage.
inline stages moved_to(const model_layers& layers, const stages& when) {
  if (!layers.attention_after) return when;
  std::vector<stage> list;
  for (stage s : when.list()) {
    const auto distance = [&](layer_id done) { return std::max(done, s.after) - std::min(done, s.after); };
    const auto& after = *layers.attention_after;
    const auto nearest = std::ranges::min_element(after.rbegin(), after.rend(), {}, distance);
    if (nearest == after.rend()) continue;
    s.after = *nearest;
    if (list.empty() || s.after > list.back().after) list.push_back(s);
  }
  return stages(std::move(list));
}

/// The first number of done layers after which the schedule could prune but attention must not score tokens, or nullopt if there is none.
inline std::optional<layer_id> pruned_in_a_window(const model_layers& layers, const any_schedule& schedule) {
  for (layer_id done = 1; done < layers.count; ++done) {
    if (layers.scores_attention_after(done)) continue;
    for (const phase step : {phase::prefill, phase::decode})
      if (schedule.prunes_after(done, step, layers.count)) return done;
  }
  return std::nullopt;
}

}  // namespace v0
}  // namespace lazyprune
