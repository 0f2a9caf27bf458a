// SPDX-License-Identifier: MIT
// The layers of a model, as the flags of a policy are held against them: how many there are, and after which of them attention tells
// of all tokens. Where layers that see no more than a window stand between others, scores of their attention would drop whatever is far.
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
  /// So many layers may be done where tokens are dropped by their attention, ascending; none: any number.
  std::optional<std::vector<layer_id>> attention_after{};

  /// Layers that see alike.
  model_layers(layer_id layers) : count(layers) {}
  model_layers(layer_id layers, std::optional<std::vector<layer_id>> after) : count(layers), attention_after(std::move(after)) {}

  bool scores_attention_after(layer_id done) const {
    return !attention_after || std::ranges::find(*attention_after, done) != attention_after->end();
  }

  /// "after 6, 12 or 18 layers, of which the last sees all tokens", as errors say what they expect.
  std::string text() const {
    std::string text;
    for (std::size_t i = 0; attention_after && i < attention_after->size(); ++i)
      text.append(i == 0 ? "" : i + 1 == attention_after->size() ? " or " : ", ").append(std::to_string((*attention_after)[i]));
    if (text.empty()) return "no pruning by attention: no layer but the last sees all tokens";
    return "pruning after " + text + " layers, of which the last sees all tokens";
  }

  friend bool operator==(const model_layers&, const model_layers&) = default;
};

/// Whether a scorer goes by attention.
constexpr bool scores_attention(const scorer_needs& needs) {
  return needs.kind == evidence_kind::attention || needs.kind == evidence_kind::window || needs.kind == evidence_kind::values;
}

/// The stages moved to the nearest layers after which they may stand, of two as near to the later; none to a layer that has one.
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

/// The first number of layers done after which the schedule could prune and a scorer of attention may not; none if there is no such.
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
