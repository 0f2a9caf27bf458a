// SPDX-License-Identifier: MIT
#include "traces/trace_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/position_ranges.hpp>
#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/registry/make_session.hpp>

namespace lazyprune {
namespace program {

void require_whole(const std::vector<step_trace>& trace, std::size_t layers) {
  const auto refuse = [](const std::string& place, const std::string& expected, const std::string& found) {
    report_error(error("trace", place, expected, found));
  };
  if (trace.empty()) refuse("", "at least one step", "none");
  std::size_t known = 0;
  for (std::size_t s = 0; s < trace.size(); ++s) {
    if (trace[s].step != s) refuse("step", std::to_string(s), std::to_string(trace[s].step));
    if (trace[s].tokens.empty()) refuse("tokens", "at least one token", "none");
    if (trace[s].layers.size() != layers)
      refuse("layers", std::to_string(layers) + ", as in the model", std::to_string(trace[s].layers.size()));
    known += trace[s].tokens.size();
    for (std::size_t l = 0; l < layers; ++l) {
      const layer_trace& layer = trace[s].layers[l];
      const std::string place = "step " + std::to_string(s) + ", layer " + std::to_string(l);
      for (const std::vector<position>* list : {&layer.active, &layer.rows, &layer.revived})
        if (std::ranges::adjacent_find(*list, std::ranges::greater_equal{}) != list->end())
          refuse(place, "ascending positions", "positions out of order");
      if (!layer.active.empty() && layer.active.back() >= known)
        refuse(place, "a position below " + std::to_string(known) + ", the number of tokens read so far",
               std::to_string(layer.active.back()));
      if (!std::ranges::includes(layer.active, layer.rows)) refuse(place, "rows that are active", "a row that is not active");
      if (!std::ranges::includes(layer.rows, layer.revived)) refuse(place, "revived tokens that are rows", "one that is not a row");
      if (!layer.scores.empty() && layer.scores.size() != layer.active.size())
        refuse(place, std::to_string(layer.active.size()) + " scores (one for each active token) or none",
               std::to_string(layer.scores.size()));
    }
  }
}

std::vector<float> scores_at(std::span<const float> scores, std::span<const position> from, std::span<const position> wanted) {
  std::vector<float> some;
  for (const position t : wanted) {
    const auto at = std::ranges::lower_bound(from, t);
    if (at == from.end() || *at != t || scores.size() != from.size()) return {};
    some.push_back(scores[static_cast<std::size_t>(at - from.begin())]);
  }
  return some;
}

std::vector<position> best_positions(std::span<const position> positions, std::vector<float> scores, std::size_t count) {
  scores.back() = std::numeric_limits<float>::infinity();
  std::vector<std::uint32_t> indices(scores.size());
  indices.resize(top_k{}.select({.scores = scores, .positions = positions, .keep = count}, indices));
  std::vector<position> kept;
  for (const std::uint32_t i : indices) kept.push_back(positions[i]);
  return kept;
}

namespace {

/// A scorer whose scores are the evidence itself, (1, active).
struct shown_scores {
  void score(const attention_view& shown, std::span<float> out) const { std::ranges::copy(shown.head(0), out.begin()); }
};

/// Counts the tokens that can take part in a step: all except those dropped for good and those lost before the first layer.
std::size_t able(const frontier_table& tokens) {
  std::size_t count = 0;
  for (position t = 0; t < tokens.known(); ++t) count += !tokens.dropped_for_good(t) && !(tokens.lost(t) && tokens.frontier(t) == 0);
  return count;
}

/// The plan that a layer of a trace is compared with, and the token table of the session that made the plan.
struct expected_layer {
  const layer_plan& plan;
  const frontier_table& tokens;
  std::size_t before;  // number of active tokens in the layer before; at the first layer, of tokens that can take part in the step

  bool has_keys(position t) const { return tokens.frontier(t) > plan.layer; }
  bool put_aside(position t) const { return tokens.frontier(t) == plan.layer && tokens.stored(t); }
};

/// The scores of layer `entered` - 1 should select the tokens that enter layer `entered`. Returns the layer nearest to `entered` - 1 whose
/// scores select exactly the tokens that did enter. Returns nullopt if there is none.
std::optional<layer_id> layer_that_keeps(const step_trace& step, layer_id entered, const scores_of_layer& scores) {
  if (entered == 0) return std::nullopt;
  const std::vector<position>&from = step.layers[entered - 1].active, &kept = step.layers[entered].active;
  return nearest_layer(entered - 1, static_cast<layer_id>(step.layers.size()) - 1, [&](layer_id other) {
    const std::vector<float> given = scores_at(scores(step.step, other), step.layers[other].active, from);
    return !given.empty() && best_positions(from, given, kept.size()) == kept;
  });
}

/// Compares a layer of the trace with the plan. Returns the difference and its kind; nullopt if there is none. `others`: see
/// first_plan_difference.
std::optional<plan_difference> difference_at(const step_trace& step, const expected_layer& expected, const scores_of_layer& others) {
  const layer_plan& plan = expected.plan;
  const layer_trace& seen = step.layers[plan.layer];
  plan_difference found{step.step, plan.layer, plan_fault::other_rows, {}, {}, std::numeric_limits<float>::quiet_NaN(), {}};
  const auto differ = [&](std::span<const position> wanted, const std::vector<position>& has) {
    found.missing = only_in(wanted, has);
    found.extra = only_in(has, wanted);
    return !found.missing.empty() || !found.extra.empty();
  };
  const auto has_keys = [&](position t) { return expected.has_keys(t); };
  const auto put_aside = [&](position t) { return expected.put_aside(t); };
  const auto all_of = [](const std::vector<position>& list, const auto& what) { return !list.empty() && std::ranges::all_of(list, what); };

  if (differ(plan.active, seen.active)) {
    const bool pruned = plan.active.size() < expected.before;
    if (!pruned && found.extra.empty() && all_of(found.missing, has_keys))
      found.fault = plan_fault::dropped_early_key;
    else if (all_of(found.missing, put_aside) && std::ranges::none_of(found.extra, put_aside))
      found.fault = plan_fault::lost_revival;
    else if ((found.scores_after = layer_that_keeps(step, plan.layer, others)))
      found.fault = plan_fault::scores_of_another_layer;
    else
      found.fault = plan_fault::other_selection;
    return found;
  }
  if (differ(plan.rows, seen.rows)) {
    if (all_of(found.extra, has_keys))
      found.fault = plan_fault::computed_twice;
    else if (all_of(found.missing, put_aside))
      found.fault = plan_fault::lost_revival;
    return found;
  }
  if (differ(revived_rows(plan), seen.revived)) return found;
  return std::nullopt;
}

}  // namespace

std::optional<plan_difference> first_plan_difference(const std::vector<step_trace>& trace, policy_parts parts, layer_id layers,
                                                     const scores_of_layer& scores, const scores_of_layer& others, std::size_t& checked) {
  require_whole(trace, layers);
  const scorer_needs needs = parts.scorer.needs();
  if (needs.kind != evidence_kind::none) parts.scorer = shown_scores{};
  any_session session = make_session(std::move(parts), {.layers = layers});
  checked = 0;
  for (const step_trace& s : trace) {
    // The evidence rows of a scorer that gathers windows are the step's last tokens. They are required, as outputs are.
    const std::size_t outputs = std::clamp<std::size_t>(needs.every_layer ? needs.window : 1, 1, s.tokens.size());
    auto step = session.begin({s.tokens.size(), phase_of(s), outputs});
    std::size_t before = able(session.tokens());
    float margin = std::numeric_limits<float>::quiet_NaN();
    for (layer_id l = 0; l < layers; ++l) {
      const layer_plan& plan = step.enter(l);
      if (auto found = difference_at(s, {plan, session.tokens(), before}, others)) {
        found->margin = margin;
        return found;
      }
      std::span<const float> given;
      if (step.wants_scores() && (given = scores(s.step, l)).size() != plan.active.size()) return std::nullopt;
      step.leave(step.wants_scores() ? evidence(attention_view{given.data(), 1, given.size(), plan.active}) : evidence{});
      margin = step.margin();
      before = s.layers[l].active.size();
    }
    step.finish();
    ++checked;
  }
  return std::nullopt;
}

std::string plan_difference::text() const {
  std::string out = "step " + std::to_string(step) + ", layer " + std::to_string(layer) + ": " + std::string(name_of(fault)) + "\n";
  const auto line = [&](const std::vector<position>& p, const char* what) {
    if (!p.empty()) out += "  positions " + position_ranges(p, 12) + " (" + std::to_string(p.size()) + ") " + what + "\n";
  };
  switch (fault) {
    case plan_fault::dropped_early_key:
      line(missing, "are left out: this layer has their keys, and nothing is pruned before it");
      break;
    case plan_fault::computed_twice:
      line(extra, "are computed: this layer has their keys");
      line(missing, "are not computed");
      break;
    case plan_fault::lost_revival:
      line(missing, "were stored in an earlier step, are selected here, and are left out");
      line(extra, "are kept instead");
      break;
    case plan_fault::scores_of_another_layer:
    case plan_fault::other_selection:
      line(missing, "are left out: the scores keep them");
      line(extra, "are kept instead");
      break;
    case plan_fault::other_rows:
      line(missing, "are missing");
      line(extra, "are not in the plan");
      break;
  }
  if (scores_after)
    out += "  the scores after layer " + std::to_string(*scores_after) + " would keep exactly the tokens that the trace kept\n";
  if (std::isfinite(margin)) out += "  margin of the selection by the scores: " + brief(margin) + "\n";
  return out;
}

}  // namespace program
}  // namespace lazyprune
