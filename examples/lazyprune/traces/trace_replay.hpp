// SPDX-License-Identifier: MIT
// Replays another engine's trace on the reference backend. A model reads the trace's tokens. On request the replay keeps the tokens that
// the trace kept. The result is the scores and logits that a correct engine has. If the engine's logits differ, known faults are planted in
// the reference. The fault that gives the engine's logits is then the likely cause.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/faulty_reference.hpp"
#include "traces/trace_check.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/model/transformer.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/registry/make_session.hpp>

namespace lazyprune {
namespace program {

/// The reference's own trace of the same tokens.
struct replayed_trace {
  std::vector<step_trace> steps;  // they have logits, and the policy's scores of every layer but the last
  /// The step and layer at which the session's plan first differed from the trace; nullopt: the replay reached the end.
  std::optional<std::pair<std::size_t, layer_id>> stopped{};
};

namespace detail {

/// The scores that a replay records, and the trace whose kept tokens it must keep.
struct replay_log {
  const std::vector<step_trace>* forced = nullptr;  // null: the policy selects
  std::size_t step = 0;
  std::vector<std::vector<float>> scores{};  // (layers, active) of this step
};

class watched_scorer {
 public:
  watched_scorer(any_scorer inner, std::shared_ptr<replay_log> log) : inner_(std::move(inner)), log_(std::move(log)) {}

  scorer_needs needs() const { return inner_.needs(); }
  std::span<const head_probe> probes(layer_id layer) const { return inner_.probes(layer); }
  void score(const every_layer<evidence>& shown, std::span<float> out) {
    inner_.score(shown, out);
    const auto* tokens = std::get_if<token_view>(&shown.now);
    const std::size_t done = tokens ? tokens->done : shown.layer + 1;
    if (done > 0) log_->scores[done - 1].assign(out.begin(), out.end());
    if (!log_->forced) return;
    const std::vector<position>& kept = (*log_->forced)[log_->step].layers[done].active;
    const std::span<const position> positions = positions_of(shown.now);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::ranges::binary_search(kept, positions[i]) ? 1.0f : 0.0f;
  }

 private:
  any_scorer inner_;
  std::shared_ptr<replay_log> log_;
};

class watched_schedule {
 public:
  watched_schedule(any_schedule inner, std::shared_ptr<replay_log> log) : inner_(std::move(inner)), log_(std::move(log)) {}

  bool sees_scores() const { return true; }  // the session then computes scores after every layer
  std::size_t keep(const layer_context&) const { return everything; }
  std::size_t keep(const layer_context& context, std::span<const float> scores) const {
    if (!log_->forced) return inner_.sees_scores() ? inner_.keep(context, scores) : inner_.keep(context);
    const auto kept = static_cast<std::size_t>(std::ranges::count(scores, 1.0f));
    return kept == scores.size() ? everything : std::max<std::size_t>(kept, 1);
  }

 private:
  any_schedule inner_;
  std::shared_ptr<replay_log> log_;
};

/// Tells the backend which rows are revived, and stops a forced step at the first plan that differs from the trace.
class replay_watch final : public step_observer {
 public:
  /// `forced`: the step whose layers the plans must match; null: any plan is right.
  replay_watch(faulty_reference::view& view, const step_trace* forced) : view_(view), forced_(forced) {}

  bool stops() override { return parted_.has_value(); }
  void layer_begins(const layer_plan& plan) override {
    view_.active.assign(plan.active.begin(), plan.active.end());
    view_.rows.assign(plan.rows.begin(), plan.rows.end());
    view_.revived = revived_rows(plan);
    if (!forced_) return;
    const layer_trace& wanted = forced_->layers[plan.layer];
    if (wanted.active != view_.active || wanted.rows != view_.rows) parted_ = plan.layer;
  }

  std::optional<layer_id> parted() const { return parted_; }

 private:
  faulty_reference::view& view_;
  const step_trace* forced_;
  std::optional<layer_id> parted_;
};

}  // namespace detail

/// Feeds the trace's tokens through the model, under the policy of these parts. With `forced`, the replay keeps the tokens that the trace
/// kept. It then stops at the first layer at which the session's plan still differs from the trace. Throws `error` if a token id is outside
/// the model's vocabulary or the trace is malformed.
inline replayed_trace replay(const model<faulty_reference>& net, const std::vector<step_trace>& trace, policy_parts parts, bool forced,
                             hidden_fault fault = hidden_fault::none) {
  const auto layers = static_cast<layer_id>(net.config.layers);
  require_whole(trace, layers);
  const auto log = std::make_shared<detail::replay_log>();
  if (forced) {
    log->forced = &trace;
    parts.selector = top_k{};
    parts.store = keep_all{};
    parts.keep_first = parts.keep_last = 0;
    parts.keep = {};
  }
  any_schedule schedule = whole_schedule(parts);
  parts.schedule = detail::watched_schedule(std::move(schedule), log);
  parts.when = pruned_steps::all;
  parts.least_tokens = 0;
  parts.scorer = detail::watched_scorer(std::move(parts.scorer), log);

  faulty_reference backend;
  backend.now->fault = fault;
  workspace<faulty_reference> work(net, backend);
  sequence<faulty_reference> seq(net, make_session(std::move(parts), {.layers = layers}));
  std::size_t tokens = 0;
  for (const step_trace& s : trace) tokens += s.tokens.size();
  seq.expect(tokens);

  std::optional<std::pair<std::size_t, layer_id>> stopped;
  trace_recorder record(true);
  std::vector<std::vector<std::vector<float>>> scores;  // (steps, layers)
  for (const step_trace& s : trace) {
    log->step = s.step;
    log->scores.assign(layers, {});
    faulty_reference::view& view = *backend.now;
    view.last = static_cast<position>(seq.known() + s.tokens.size() - 1);
    view.aside.clear();
    for (position t = 0; t < seq.known(); ++t)
      if (seq.session().tokens().stored(t)) view.aside.push_back(t);
    detail::replay_watch watch(view, forced ? &s : nullptr);
    step_observers both{&watch, &record};
    const sequence_step<faulty_reference> step{seq, s.tokens, phase_of(s), 1, &both};
    const bool whole = forward(work, step);
    if (whole) scores.push_back(std::move(log->scores));
    if (const auto parted = watch.parted()) {  // a step that differs only at its last layer is still complete
      stopped = {s.step, *parted};
      break;
    }
  }
  replayed_trace result{record.take(), stopped};
  for (std::size_t s = 0; s < scores.size(); ++s)
    for (layer_id l = 0; l + 1 < layers; ++l) result.steps[s].layers[l].scores = std::move(scores[s][l]);
  return result;
}

namespace detail {

/// Returns the largest difference between a score in `a` and the same score in `b`, and the index of these scores. The difference is
/// divided by the largest magnitude in `b`, unless that is 0.
inline std::pair<double, std::size_t> scores_apart(std::span<const float> a, std::span<const float> b) {
  double most = 0, largest = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    const double apart = std::abs(static_cast<double>(a[i]) - b[i]);
    if (apart <= most) continue;
    most = apart;
    at = i;
  }
  return {largest > 0 ? most / largest : most, at};
}

/// Returns the fault that reproduces the trace's logits for the longest run of steps from `first` on. Returns hidden_fault::none if no
/// fault reproduces the logits of step `first`.
inline hidden_fault cause_of(const model<faulty_reference>& net, const std::vector<step_trace>& trace, const policy_parts& parts,
                             std::size_t first, double tolerance) {
  hidden_fault cause = hidden_fault::none;
  std::size_t most = 0;
  for (const hidden_fault fault : hidden_faults) {
    const replayed_trace guess = replay(net, trace, parts, true, fault);
    std::size_t s = first;
    while (s < guess.steps.size() && !trace[s].logits.empty() && logits_apart(trace[s], guess.steps[s]) <= tolerance) ++s;
    if (s - first <= most) continue;
    most = s - first;
    cause = fault;
  }
  return cause;
}

}  // namespace detail

/// The result of checking another engine's trace. In the numbers of layers, a layer counts once for each step.
struct trace_verdict {
  std::size_t steps = 0;                       // the trace's number of steps
  bool forced = false;                         // the replay kept the tokens that the trace kept
  std::size_t by_trace = 0;                    // layers whose selection was checked with the trace's scores
  std::size_t by_reference = 0;                // layers without scores in the trace, checked with the reference's scores
  std::size_t selected = 0;                    // steps whose selection was checked and followed from the scores
  std::optional<plan_difference> selection{};  // the first selection that does not follow from the scores
  std::size_t scored = 0;                      // layers whose scores were compared with the reference's
  struct other_scores {
    std::size_t step;
    layer_id layer;
    position token;                    // the position at which the scores differ most
    double most;                       // that difference, relative to the largest score
    std::optional<layer_id> are_of{};  // the layer that has these scores in the reference
  };
  std::optional<other_scores> scores{};  // the first scores that differ from the reference's
  std::size_t with_logits = 0;           // steps whose logits were compared
  double most = 0;                       // largest difference of the logits that agree within the tolerance
  double tolerance = 0;
  std::optional<std::pair<std::size_t, double>> logits{};  // the first step whose logits differ, and the largest difference in it
  hidden_fault cause = hidden_fault::none;                 // the fault that explains this difference

  bool alike() const { return !selection && !scores && !logits && selected == steps; }
  /// A report of a few lines, each with its line break.
  std::string text() const;
};

/// Checks a trace against the reference backend. It answers three questions. Does the selection follow from the trace's scores (or from the
/// reference's scores, if the trace has none)? Are the trace's scores those of the reference? Do its logits follow from its plan? For each
/// question, the verdict names the first place of a difference. With `forced` the reference keeps the tokens that the trace keeps, so each
/// step is judged by itself. Otherwise the reference follows the policy of `parts`, and logits are compared until the plans differ. If
/// logits differ, the trace is replayed once with each of `hidden_faults`. Logits count as equal if they differ by at most `tolerance`.
inline trace_verdict check_trace(const model<faulty_reference>& net, const std::vector<step_trace>& trace, const policy_parts& parts,
                                 bool forced, double tolerance = 1e-4) {
  const auto layers = static_cast<layer_id>(net.config.layers);
  const replayed_trace ours = replay(net, trace, parts, forced);
  trace_verdict verdict{.steps = trace.size(), .forced = forced, .tolerance = tolerance};
  // Check the selection.
  const scores_of_layer reference_scores = [&](std::size_t step, layer_id layer) -> std::span<const float> {
    if (step >= ours.steps.size() || layer >= ours.steps[step].layers.size()) return {};
    if (ours.steps[step].layers[layer].active != trace[step].layers[layer].active) return {};
    return ours.steps[step].layers[layer].scores;
  };
  const scores_of_layer given = [&](std::size_t step, layer_id layer) -> std::span<const float> {
    const std::vector<float>& theirs = trace[step].layers[layer].scores;
    ++(theirs.empty() ? verdict.by_reference : verdict.by_trace);
    return theirs.empty() ? reference_scores(step, layer) : std::span<const float>(theirs);
  };
  verdict.selection = first_plan_difference(trace, parts, layers, given, reference_scores, verdict.selected);

  // Compare scores and logits as long as the plans are the same.
  const auto same_plan = [&](const step_trace& a, const step_trace& b, layer_id end) {
    for (layer_id l = 0; l < end; ++l)
      if (a.layers[l].active != b.layers[l].active || a.layers[l].rows != b.layers[l].rows) return false;
    return true;
  };
  for (std::size_t s = 0; s < ours.steps.size(); ++s) {
    for (layer_id l = 0; l + 1 < layers && !verdict.scores; ++l) {
      const std::vector<float>& theirs = trace[s].layers[l].scores;
      const std::span<const float> expected = reference_scores(s, l);
      if (theirs.empty() || expected.size() != theirs.size() || !same_plan(trace[s], ours.steps[s], l + 1)) continue;
      constexpr double as_floats = 1e-3;  // allows for engines that compute in bf16 or float
      ++verdict.scored;
      const auto [most, at] = detail::scores_apart(theirs, expected);
      if (most <= as_floats) continue;
      verdict.scores = {s, l, trace[s].layers[l].active[at], most, {}};
      verdict.scores->are_of = nearest_layer(l, layers - 1, [&](layer_id other) {
        const auto& active = trace[s].layers;
        const std::vector<float> some = scores_at(reference_scores(s, other), active[other].active, active[l].active);
        return some.size() == theirs.size() && detail::scores_apart(theirs, some).first <= as_floats;
      });
    }
    if (!same_plan(trace[s], ours.steps[s], layers)) break;
    const std::vector<double>&a = trace[s].logits, &b = ours.steps[s].logits;
    if (a.empty()) continue;
    if (a.size() != b.size()) throw error("trace", "logits", std::to_string(b.size()) + ", as in the model", std::to_string(a.size()));
    ++verdict.with_logits;
    const double apart = logits_apart(trace[s], ours.steps[s]);
    if (apart <= tolerance) {
      verdict.most = std::max(verdict.most, apart);
      continue;
    }
    verdict.logits = {s, apart};
    verdict.cause = detail::cause_of(net, trace, parts, s, tolerance);
    break;
  }
  return verdict;
}

inline std::string trace_verdict::text() const {
  std::string out = alike() ? "alike\n" : "different\n";
  const std::string whose = by_trace > 0 ? "the trace's scores" : "the reference's scores";
  const std::string mixed = by_trace > 0 && by_reference > 0
                                ? "; " + std::to_string(by_reference) + " layers have no scores, so the reference's were used there"
                                : "";
  if (selection) {
    out += "selection: differs from what " + whose + " imply; steps that agree before: " + std::to_string(selected) + " of " +
           std::to_string(steps) + mixed + "\n";
    const std::string lines = selection->text();
    for (const std::string_view line : split(lines, '\n'))
      if (!line.empty()) out.append("  ").append(line).append("\n");
  } else {
    out +=
        "selection: follows from " + whose + " in " + std::to_string(selected) + " of " + std::to_string(steps) + " steps" + mixed +
        (selected < steps ? "; step " + std::to_string(selected) + " has no scores where the policy prunes, so it was not checked" : "") +
        "\n";
  }
  if (scores)
    out += "scores: differ from the reference's, first at step " + std::to_string(scores->step) + ", layer " +
           std::to_string(scores->layer) + ". The largest difference is at position " + std::to_string(scores->token) + ": " +
           brief(scores->most) + " times the largest score" +
           (scores->are_of ? ". Cause: scores of another layer, those of layer " + std::to_string(*scores->are_of) : std::string()) + "\n";
  else
    out += scored > 0 ? "scores: agree with the reference's in all " + std::to_string(scored) + " layers compared\n"
                      : "scores: not compared: the trace has none, or its plan differs from the reference's\n";
  if (logits) {
    out += "logits: do not follow from the plan, first at step " + std::to_string(logits->first) + ", by " + brief(logits->second) +
           " (tolerance " + brief(tolerance) + ")\n  ";
    out += cause == hidden_fault::none ? "cause unknown: no fault that this check tries gives these logits" : std::string(name_of(cause));
    out += "\n";
  } else if (with_logits > 0) {
    out += "logits: follow from the plan in " + std::to_string(with_logits) + " steps, " + brief(most) + " apart at most (tolerance " +
           brief(tolerance) + ")\n";
  } else {
    out +=
        "logits: not compared: the trace has none, or its plan differs from the reference's; "
        "this check would not find a shifted position or a permuted slot\n";
  }
  return out;
}

}  // namespace program
}  // namespace lazyprune
