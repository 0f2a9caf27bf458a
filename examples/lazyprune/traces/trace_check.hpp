// SPDX-License-Identifier: MIT
// Checks whether the plans in another engine's trace follow from the engine's policy and the trace's scores. The scores drive a session of
// that policy, without any model. Each plan of the session is compared with the trace. The first difference is reported. Its cause is
// reported too, if the trace shows the cause.
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

/// A mistake of an engine.
enum class plan_fault : std::uint8_t {
  dropped_early_key,        // a token is left out at a layer that has its key, although nothing is pruned just before
  computed_twice,           // a row is computed although this layer already has its key
  lost_revival,             // the plan revives a stored token, but the trace leaves it out
  scores_of_another_layer,  // the kept tokens follow from the scores of another layer
  other_selection,          // the kept tokens do not follow from the scores
  other_rows,               // rows, or revived tokens, differ from the plan in another way
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

/// The first place where a trace differs from the plan that its scores imply.
struct plan_difference {
  std::size_t step;
  layer_id layer;
  plan_fault fault;
  std::vector<position> missing;         // in the plan, not in the trace
  std::vector<position> extra;           // in the trace, not in the plan
  float margin;                          // margin of the selection just before this layer (see step_trace::margin); NaN: no selection
  std::optional<layer_id> scores_after;  // for scores_of_another_layer: the layer whose scores were used

  /// A report of a few lines, each with its line break.
  std::string text() const;
};

/// Returns the scores (active) after a layer of a step. Empty if they are not known.
using scores_of_layer = std::function<std::span<const float>(std::size_t step, layer_id layer)>;

/// Reports `error` if the trace is malformed. A well-formed trace has steps numbered from 0, each with at least one token and `layers`
/// layers. In a layer, positions ascend and are below the number of tokens known so far. Rows are a subset of the active tokens, and
/// revived tokens a subset of the rows. A layer has one score per active token, or no scores.
void require_whole(const std::vector<step_trace>& trace, std::size_t layers);

/// Returns the best `count` positions by these scores, ascending. The last position is always among them.
std::vector<position> best_positions(std::span<const position> positions, std::vector<float> scores, std::size_t count);

/// Returns the scores of the wanted positions. scores[i] is the score of position from[i]. Returns an empty list if `from` lacks a wanted
/// position, or if `scores` and `from` differ in size.
std::vector<float> scores_at(std::span<const float> scores, std::span<const position> from, std::span<const position> wanted);

/// Looks at the layers 0 to `layers` - 1, except `layer` itself. Returns the one nearest to `layer` for which `is` is true. If two layers
/// are equally near, returns the lower one. Returns nullopt if there is none.
template <class Is>
std::optional<layer_id> nearest_layer(layer_id layer, layer_id layers, const Is& is) {
  for (layer_id distance = 1; distance < layers; ++distance) {
    if (distance <= layer && is(layer - distance)) return layer - distance;
    if (layer + distance < layers && is(layer + distance)) return layer + distance;
  }
  return std::nullopt;
}

/// Returns the phase of a trace's step. Traces do not store it: the first step and every step of several tokens count as prefill.
constexpr phase phase_of(const step_trace& step) { return step.step == 0 || step.tokens.size() > 1 ? phase::prefill : phase::decode; }

/// Drives a session of these parts with the scores, for a model of `layers` layers. Returns the first place where the trace differs from
/// the session's plan, or nullopt if there is none. The check ends early at a layer whose scores are needed but not known. `checked`
/// becomes the number of steps that were compared completely. `others` gives the scores of any layer. They show whether a wrong selection
/// used the scores of another layer. Every step is assumed to have one output, and the phase that phase_of returns. Reports `error` if the
/// trace is malformed (require_whole).
std::optional<plan_difference> first_plan_difference(const std::vector<step_trace>& trace, policy_parts parts, layer_id layers,
                                                     const scores_of_layer& scores, const scores_of_layer& others, std::size_t& checked);

}  // namespace program
}  // namespace lazyprune
