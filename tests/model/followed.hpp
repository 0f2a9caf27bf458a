// SPDX-License-Identifier: MIT
// A run that makes the decisions of another run, the leader. Its scorer computes and records its own scores, but returns the leader's
// scores. So both runs keep the same tokens, and differ only by arithmetic.
#pragma once

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/session/trace.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace lazyprune_test {

/// One call of a scorer.
struct scored {
  std::vector<float> scores;  // (active)
  double spread;              // largest standard deviation of a head's log-probabilities; 1 without probabilities; not used of followers
};
using score_log = std::vector<scored>;

template <class Scorer>
struct followed : Scorer {
  score_log* own;
  const score_log* leader = nullptr;  // null: this run leads

  followed(Scorer scorer, score_log& log, const score_log* to_follow = nullptr) : Scorer(scorer), own(&log), leader(to_follow) {}

  /// The leader computes the spread from all heads, so it asks for no reduction. The follower asks for the one that `Scorer` asks for.
  std::optional<lazyprune::head_reduction> over_heads() const requires lazyprune::head_reducing_scorer<Scorer> {
    return leader ? std::optional<lazyprune::head_reduction>(Scorer::over_heads()) : std::nullopt;
  }

  void score(const lazyprune::view_of<Scorer>& view, std::span<float> out) const {
    Scorer::score(view, out);
    double spread = 0;
    if constexpr (requires { view.now; })  // `Scorer` adds its scores to those of earlier calls
      spread = std::max(spread_of(view.now), own->empty() ? 0.0 : own->back().spread);
    else
      spread = spread_of(view);
    own->push_back({{out.begin(), out.end()}, spread});
    if (leader) std::ranges::copy((*leader)[own->size() - 1].scores, out.begin());
  }

 private:
  static double spread_of(const lazyprune::attention_view& view) {
    double largest = 0;
    for (std::size_t h = 0; h < view.heads; ++h) {
      double count = 0, sum = 0, squares = 0;
      for (const float p : view.head(h)) {
        if (p == 0) continue;  // the token is not seen, or its probability is below the range of float
        const double x = std::log(p);
        ++count;
        sum += x;
        squares += x * x;
      }
      largest = std::max(largest, std::sqrt(squares / count - sum * sum / (count * count)));
    }
    return largest;
  }
  static double spread_of(const lazyprune::value_view& view) { return spread_of(view.attention); }
  static double spread_of(const lazyprune::window_view& view) { return spread_of(view.query(view.queries - 1)); }
  static double spread_of(const lazyprune::key_view&) { return 1; }
};

/// A choice by top_k. The cut is the leader's lowest score of a kept token. An exchanged token is one that only the leader or only the
/// follower would keep. Numbers of type double are relative differences of two of the leader's scores.
struct choice {
  double allowed;             // the difference that rounding may make
  double margin;              // between the cut and the highest score of a token that is not kept; infinity if all tokens are kept
  double furthest = 0;        // the largest difference between the cut and the score of an exchanged token
  std::size_t exchanged = 0;  // tokens
  std::size_t tokens = 0;     // all that the leader chose from
  std::size_t certain = 0;    // tokens whose scores differ from the cut by more than `allowed`
};

/// Compares the tokens that the leader kept with the tokens that the follower's own scores would keep, for all choices by top_k in a run.
/// `allowed(layers, spread)` returns the allowed difference of the logarithm of a score after `layers` layers.
template <class Allowed>
std::vector<choice> choices_of(const std::vector<lazyprune::step_trace>& trace, const score_log& leader, const score_log& follower,
                               Allowed allowed) {
  std::vector<choice> choices;
  std::size_t call = 0;
  const std::size_t layers = trace.front().layers.size();
  const bool every_layer = leader.size() == trace.size() * (layers - 1);
  for (const lazyprune::step_trace& step : trace)
    for (std::size_t l = 0; l + 1 < layers; ++l) {
      if (!step.margin[l] && !every_layer) continue;
      const std::vector<float>&theirs = leader[call].scores, &own = follower[call].scores;
      choice found{-std::expm1(-allowed(l + 1, leader[call].spread)), INFINITY};
      ++call;
      if (!step.margin[l]) continue;
      REQUIRE(theirs.size() == step.layers[l].active.size());
      REQUIRE(own.size() == theirs.size());
      const auto &active = step.layers[l].active, &kept = step.layers[l + 1].active;
      std::vector<std::size_t> order(active.size() - 1);  // without the query token, which always stays
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return own[a] > own[b]; });
      const auto keeps = [&](std::size_t i) { return std::ranges::binary_search(kept, active[i]); };
      double cut = INFINITY;
      for (const std::size_t i : order)
        if (keeps(i)) cut = std::min<double>(cut, theirs[i]);
      for (std::size_t n = 0; n < order.size(); ++n) {
        const double score = theirs[order[n]];
        const double apart = score == cut ? 0.0 : std::abs(score - cut) / std::max(std::abs(score), std::abs(cut));
        ++found.tokens;
        found.certain += apart > found.allowed;
        if (!keeps(order[n])) found.margin = std::min(found.margin, apart);
        if (keeps(order[n]) == (n + 1 < kept.size())) continue;
        found.furthest = std::max(found.furthest, apart);
        ++found.exchanged;
      }
      choices.push_back(found);
    }
  return choices;
}

/// Returns the largest `furthest` of all choices in a run, as a share of what is allowed. See choices_of.
template <class Allowed>
double furthest_other_choice(const std::vector<lazyprune::step_trace>& trace, const score_log& leader, const score_log& follower,
                             Allowed allowed) {
  double furthest = 0;
  for (const choice& c : choices_of(trace, leader, follower, allowed)) furthest = std::max(furthest, c.furthest / c.allowed);
  return furthest;
}

}  // namespace lazyprune_test
