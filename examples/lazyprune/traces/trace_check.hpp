// SPDX-License-Identifier: MIT
// Is the plan of another engine what its policy makes of its scores? A session of that policy is driven by the scores, without any model,
// and held against the trace; the first place where they part has a name, as far as the trace can tell.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/registry/policy_parts.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
namespace program {

/// What an engine does wrong, by the name that people give it.
enum class plan_fault : std::uint8_t {
  dropped_early_key,        // a token is left out at a layer whose keys it has, and where nothing is pruned
  computed_twice,           // a row whose keys this layer has already
  lost_revival,             // a token that was put aside is wanted again, and left out
  scores_of_another_layer,  // the tokens kept are those of the scores of another layer
  other_selection,          // the tokens kept are not those of the scores
  other_rows,               // rows are missing, or come from elsewhere
};

constexpr std::string_view name_of(plan_fault fault) {
  constexpr std::array<std::string_view, 6> names{"a dropped early key",
                                                  "a token computed twice",
                                                  "a lost revival",
                                                  "scores of another layer",
                                                  "another selection than the scores imply",
                                                  "other rows"};
  return names[static_cast<std::size_t>(fault)];
}

/// The first place where a trace parts from the plan that its scores imply.
struct plan_difference {
  std::size_t step;
  layer_id layer;
  plan_fault fault;
  std::vector<position> missing;         // in the trace
  std::vector<position> extra;           // in the trace
  float margin;                          // of the choice that decided who enters the layer; NaN: there was none
  std::optional<layer_id> scores_after;  // scores_of_another_layer: the one that gave them

  /// A few lines for people, the last one ended.
  std::string text() const;
};

/// The scores (active) that a layer of a step gave; empty: not known.
using scores_of_layer = std::function<std::span<const float>(std::size_t step, layer_id layer)>;

/// Reports `error` where a trace is not whole, as those that were read are: steps numbered from 0, each with tokens and so many layers;
/// positions that ascend below the tokens known so far, rows that are active, revived ones that are rows, and as many scores as are active,
/// or none.
void require_whole(const std::vector<step_trace>& trace, std::size_t layers);

/// The best `count` of the positions by these scores, the last position whatever its score; ascending.
std::vector<position> best_positions(std::span<const position> positions, std::vector<float> scores, std::size_t count);

/// The scores of the wanted positions, out of those of `from`; empty where one is missing.
std::vector<float> scores_at(std::span<const float> scores, std::span<const position> from, std::span<const position> wanted);

/// The layer nearest to this one, below `layers`, of two as near the lower, of which that is true; none: of no other.
template <class Is>
std::optional<layer_id> nearest_layer(layer_id layer, layer_id layers, const Is& is) {
  for (layer_id distance = 1; distance < layers; ++distance) {
    if (distance <= layer && is(layer - distance)) return layer - distance;
    if (layer + distance < layers && is(layer + distance)) return layer + distance;
  }
  return std::nullopt;
}

/// The phase of a step of a trace, which does not say it: the prompt, and what comes several tokens at a time.
constexpr phase phase_of(const step_trace& step) { return step.step == 0 || step.tokens.size() > 1 ? phase::prefill : phase::decode; }

/// Drives a session of these parts by the scores, for a model of so many layers, and returns the first place where the trace is not what it
/// plans; none: everywhere. A layer whose scores are not known, where they would be needed, ends the check: `checked` is then how many
/// steps were held against the plan as a whole. `others`: scores of any layer, to tell whose they are where the choice is another one's.
/// Each step is taken to have one output; see phase_of. Reports `error` where the trace is not whole (require_whole).
std::optional<plan_difference> first_plan_difference(const std::vector<step_trace>& trace, policy_parts parts, layer_id layers,
                                                     const scores_of_layer& scores, const scores_of_layer& others, std::size_t& checked);

}  // namespace program
}  // namespace lazyprune
