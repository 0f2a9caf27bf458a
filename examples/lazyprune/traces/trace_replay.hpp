// SPDX-License-Identifier: MIT
// Another engine's trace on the reference backend: its tokens, and where that is asked for its kept sets, go through a model of ours, which
// yields the scores and logits that the engine should have had. Where logits differ, known faults are tried until one gives the engine's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/faulty_reference.hpp"
#include "traces/trace_check.hpp"

#include <lazyprune/model/model.hpp>
#include <lazyprune/registry/policy_parts.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
namespace program {

/// What the reference made of a trace.
struct replayed_trace {
  std::vector<step_trace> steps;  // with logits, and the policy's scores of every layer but the last
  /// The step and layer at which the session cannot plan what the trace says; none: it went to its end.
  std::optional<std::pair<std::size_t, layer_id>> stopped{};
};

/// Feeds the trace's tokens through the model: under the policy of these parts, or with `forced` keeping what the trace kept, as far as a
/// session can. Throws `error` where a token is none of the model's, or the trace not whole.
replayed_trace replay(const model<faulty_reference>& net, const std::vector<step_trace>& trace, policy_parts parts, bool forced,
                      hidden_fault fault = hidden_fault::none);

/// What the reference says of another engine's trace.
struct trace_verdict {
  std::size_t steps = 0;                       // of the trace
  bool forced = false;                         // its kept sets were kept
  std::size_t by_trace = 0;                    // layers of steps whose selection was held against the trace's scores
  std::size_t by_reference = 0;                // those where it has none: against the reference's
  std::size_t selected = 0;                    // steps whose selection was held against scores, and followed from them
  std::optional<plan_difference> selection{};  // where it first does not
  std::size_t scored = 0;                      // layers of steps whose scores were held against the reference's
  struct other_scores {
    std::size_t step;
    layer_id layer;
    position token;                    // whose scores are furthest apart
    double most;                       // their difference, over the largest score
    std::optional<layer_id> are_of{};  // the layer whose they are
  };
  std::optional<other_scores> scores{};  // where they are first others
  std::size_t with_logits = 0;           // steps whose logits were compared
  double most = 0;                       // difference of a logit, before `logits`
  double tolerance = 0;
  std::optional<std::pair<std::size_t, double>> logits{};  // the first step whose logits do not follow from its plan, and by how much
  hidden_fault cause = hidden_fault::none;                 // that explains them

  bool alike() const { return !selection && !scores && !logits && selected == steps; }
  /// A few lines for people, the last one ended.
  std::string text() const;
};

/// Holds a trace against the reference: is its selection what its scores imply (or, where it has none, the reference's), are its scores the
/// reference's, do its logits follow from its plan, and where they first do not. With `forced` the reference keeps what the trace keeps, so
/// that each step is judged by itself; else it goes its own way, and logits are compared up to where the two part. Where logits do not
/// follow, the trace is replayed once for each of `hidden_faults`.
trace_verdict check_trace(const model<faulty_reference>& net, const std::vector<step_trace>& trace, const policy_parts& parts, bool forced,
                          double tolerance = 1e-4);

}  // namespace program
}  // namespace lazyprune
