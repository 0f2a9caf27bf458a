// SPDX-License-Identifier: MIT
// Selects the active tokens that go on to the next layer. The selector chooses among the tokens that can go on. The tokens that the step
// requires always stay. They are set apart before scores are compared, so no other score can displace them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/finite.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/session/index_fault.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// The memory that a session works in during `step::leave`. Nothing in it outlives the call. The sessions of one thread can share one.
struct selection_scratch {
  std::vector<float> scores;           // (active)
  std::vector<position> eligible;      // active tokens that can go on, ascending; after the selection, the dropped ones among them
  std::vector<float> eligible_scores;  // (eligible)
  std::vector<std::uint32_t> kept;     // indices that a selector or a store writes
  std::vector<position> arrivals;      // dropped rows that need a slot, ascending
  std::vector<position> stored;        // the arrivals and the rows already stored, ascending
  std::vector<float> stored_scores;    // (stored)

  static constexpr std::size_t bytes_per_token = 4 * sizeof(position) + 3 * sizeof(float);

  void reserve(std::size_t tokens) {
    for (auto* positions : {&eligible, &arrivals, &stored}) positions->reserve(tokens);
    for (auto* numbers : {&scores, &eligible_scores, &stored_scores}) numbers->reserve(tokens);
    if (kept.size() < tokens) kept.resize(tokens);
  }
};

/// The input of a selection.
struct selection_request {
  std::size_t quota;       // the schedule's answer: how many active tokens go on
  position required_from;  // tokens from this position on must stay, the query token among them
};

/// The result of a selection.
struct selection_outcome {
  float margin = std::numeric_limits<float>::quiet_NaN();  // see step::margin
  std::optional<index_fault> fault = std::nullopt;         // set if the selector's list was wrong; nothing was then dropped
};

/// Makes the score that a selector sees, for a token that is not required. NaN becomes -inf. +inf becomes the largest finite number,
/// because +inf means "required" to a selector. Tokens with this largest number tie, and their positions decide.
inline float comparable(float score) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  return is_nan(score) ? -infinity : score > largest ? largest : score;
}

/// Chooses among the active tokens for which `can_go_on` is true, by scratch.scores (active). Afterwards `active` holds the kept tokens.
/// The scratch holds the dropped tokens (`eligible`) and their scores.
template <token_selector Selector, class CanGoOn>
selection_outcome select(const Selector& selector, const selection_request& request, std::vector<position>& active,
                         selection_scratch& scratch, CanGoOn can_go_on) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<position>& tokens = scratch.eligible;
  std::vector<float>& scores = scratch.eligible_scores;
  tokens.clear();
  scores.clear();
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (!can_go_on(active[i])) continue;
    tokens.push_back(active[i]);
    scores.push_back(scratch.scores[i]);
  }
  const std::size_t n = tokens.size();
  const auto required = static_cast<std::size_t>(std::ranges::lower_bound(tokens, request.required_from) - tokens.begin());
  double mass = 0;
  for (const float score : std::span(scores).subspan(required))
    if (score > 0.0f && score < infinity) mass += score;
  const auto first_required = scores.begin() + static_cast<std::ptrdiff_t>(required);
  std::transform(scores.begin(), first_required, scores.begin(), comparable);
  std::fill(first_required, scores.end(), infinity);

  const std::size_t wanted = std::min(std::clamp<std::size_t>(request.quota, 1, active.size()), n);
  const candidates choice{.scores = scores, .positions = tokens, .keep = std::max(wanted, n - required), .required_mass = mass};
  const std::span<std::uint32_t> indices = std::span(scratch.kept).first(n);
  std::size_t kept = selector.select(choice, indices);
  if (const auto fault = fault_in(indices, kept)) {
    active = tokens;
    tokens.clear();
    scores.clear();
    return {.fault = fault};
  }
  while (kept > 0 && indices[kept - 1] >= required) --kept;
  for (std::size_t i = required; i < n; ++i) indices[kept++] = static_cast<std::uint32_t>(i);

  active.clear();
  std::size_t dropped = 0;
  float least_kept = infinity, best_dropped = -infinity;
  for (std::size_t i = 0, k = 0; i < n; ++i) {
    if (k < kept && indices[k] == i) {
      ++k;
      active.push_back(tokens[i]);
      if (scores[i] < least_kept) least_kept = scores[i];
    } else {
      if (scores[i] > best_dropped) best_dropped = scores[i];
      tokens[dropped] = tokens[i];
      scores[dropped++] = comparable(scores[i]);  // a selector that wraps another may have raised this score
    }
  }
  tokens.resize(dropped);
  scores.resize(dropped);
  if (dropped == 0 || least_kept == infinity || least_kept < best_dropped) return {};
  return {.margin = least_kept == best_dropped ? 0.0f : (least_kept - best_dropped) / std::abs(least_kept)};
}

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
