// SPDX-License-Identifier: MIT
// A search for the stages that prune most while the loss of accuracy stays within a bound. The paper shows one schedule and does not say
// how it was found. This search finds one for a given model and the samples of a task.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/rows_share.hpp>

namespace lazyprune {
inline namespace v0 {

/// Stages that were evaluated.
struct searched_stages {
  stages when;
  double rows;   // share of the dense prefill's rows (rows_share)
  double score;  // 0 to 100
  double loss;   // points of score; see stage_score
  bool holds;    // whether the loss is at most max_loss; always true for the dense model
  friend bool operator==(const searched_stages&, const searched_stages&) = default;
};

/// A score with its loss. An evaluation may return this struct in place of a score if it computes the loss itself.
struct stage_score {
  double score;  // 0 to 100
  double loss;   // points of score, as the caller defines them
};

struct stage_search_result {
  std::vector<searched_stages> trail;  // in the order of evaluation; begins with the dense model
  std::size_t best = 0;                // index into `trail`: of the stages that hold, those with the fewest rows
  bool complete = true;                // false if the limit of evaluations or `enough` prevented an evaluation
  friend bool operator==(const stage_search_result&, const stage_search_result&) = default;
};

/// Local search over stages. Each layer has at most one stage, with a share from a grid.
///  1. Lower: add a stage to the best stages so far, if `most_stages` allows it, or lower the share of one stage. Take the change that
///     leaves the fewest rows. For each layer, one evaluation tests the largest share that leaves fewer rows than the best change so far.
///     If this share does not hold, the layer is skipped. Otherwise bisection finds the lowest share that holds.
///  2. Exchange, if step 1 finds nothing: soften one stage (take the next larger share, move it one layer later, or remove it), and lower
///     as in step 1. Accept the result if it has fewer rows than the best stages.
/// Steps 1 and 2 repeat until neither finds anything. A model of more than 8 layers is first searched by step 1 alone, with new stages
/// after 4 to 8 evenly spaced layers. Then new stages are tried after twice as many layers, and so on. Stages A prune at least as hard as
/// stages B if no layer has more active tokens with A than with B. If B did not hold, the search assumes that A does not hold either, and
/// does not evaluate A. Nothing is evaluated twice. The result depends only on the scores and losses.
///
/// The result is a local optimum: no change of one stage and no exchange improves it. If a score rises with more pruning, for example by
/// chance with few samples, the search can miss better stages. Also, the best of many evaluations looks better than it is. So score the
/// result on other samples. With few samples, return a `stage_score` whose loss is the largest plausible one.
/// A round of step 1 evaluates about one schedule per layer and a few more. A round of step 2 lowers as in step 1 for each way to soften a
/// stage, so it may evaluate as many schedules for each way. Many schedules are ruled out without an evaluation.
struct stage_search {
  double max_loss = 1.0;                                           // points of score
  std::vector<double> shares{0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05};  // descending, each in (0, 1)
  std::size_t most_evaluations = 100;                              // including the one of the dense model
  std::size_t most_stages = 0;                                     // 0: one for each layer
  std::optional<std::vector<layer_id>> after{};                    // numbers of completed layers after which a stage may stand; none: all
  std::function<bool(const stages&)> enough{};                     // called before each evaluation except the first; true: skip it

  /// Searches stages for a model of `layers` layers. `evaluate(const stages&)` returns a `stage_score`, or a score from 0 to 100. The loss
  /// of such a score is the dense model's score minus this score. The first call has no stages: it scores the dense model. Throws `error`
  /// if the shares do not descend within (0, 1), and whatever `evaluate` throws.
  template <class Evaluate>
  stage_search_result operator()(layer_id layers, Evaluate evaluate) const;

  /// Returns the least number of layers after which a later evaluation can still prune, given that the stages `failed` did not hold. If
  /// `failed` is a single stage with the largest share, every stage after as many or fewer layers prunes at least as hard and is skipped.
  /// The result is then the next number of layers after which a stage may stand. Otherwise the result is 0.
  layer_id first_after(const stages& failed, layer_id layers) const {
    if (failed.list().size() != 1 || failed.list().front().share != shares.front()) return 0;
    layer_id next = failed.list().front().after + 1;
    while (next < layers && !stands(next)) ++next;
    return next;
  }

  /// Returns whether a stage may stand after `done` layers.
  bool stands(layer_id done) const { return !after || std::ranges::find(*after, done) != after->end(); }
};

/// Returns the Pareto front of the evaluated stages: rows ascend, and each score is higher than all scores before it.
inline std::vector<searched_stages> best_trades(std::vector<searched_stages> tried) {
  std::ranges::stable_sort(tried, [](const auto& a, const auto& b) { return a.rows != b.rows ? a.rows < b.rows : a.score > b.score; });
  std::vector<searched_stages> best;
  for (searched_stages& point : tried)
    if (best.empty() || point.score > best.back().score) best.push_back(std::move(point));
  return best;
}

namespace detail {

/// notches[l] is the stage after l + 1 layers: 0 for no stage, n for the share with index n - 1 in the grid.
using notches = std::vector<std::size_t>;

template <class Evaluate>
class stage_searcher {
 public:
  stage_searcher(const stage_search& how, layer_id layers, Evaluate& evaluate) : how_(how), layers_(layers), evaluate_(evaluate) {}

  stage_search_result run() {
    notches best(std::max<layer_id>(layers_, 1) - 1, 0);
    holds(best);
    while (layers_ / apart_ > coarse) apart_ *= 2;
    for (;;) {
      if (auto next = better(best))
        best = *std::move(next);
      else if (apart_ > 1)
        apart_ /= 2;
      else
        break;
    }
    result_.best = static_cast<std::size_t>(std::ranges::find(tried_, best) - tried_.begin());
    return std::move(result_);
  }

 private:
  stages stages_of(const notches& at) const {
    std::vector<stage> list;
    for (std::size_t l = 0; l < at.size(); ++l)
      if (at[l] > 0) list.push_back({static_cast<layer_id>(l + 1), how_.shares[at[l] - 1]});
    return stages(std::move(list));
  }
  bool stands(std::size_t l) const { return how_.stands(static_cast<layer_id>(l + 1)); }
  double rows(const notches& at) const { return rows_share(stages_of(at), layers_); }

  std::optional<notches> better(const notches& best) {
    if (auto lower = lowered(best, rows(best)); lower || apart_ > 1) return lower;
    for (const notches& softer : softened(best))
      if (auto exchanged = lowered(softer, rows(best))) return exchanged;
    return std::nullopt;
  }

  /// Tries to lower one share or to add one stage. Of the results that hold and have fewer rows than `bound`, returns the one with the
  /// fewest rows. Returns nullopt if there is no such result.
  std::optional<notches> lowered(const notches& from, double bound) {
    std::optional<notches> best;
    const auto standing = static_cast<std::size_t>(std::ranges::count_if(from, [](std::size_t notch) { return notch > 0; }));
    const bool full = how_.most_stages > 0 && standing >= how_.most_stages;
    for (std::size_t l = 0; l < from.size(); ++l) {
      if (!stands(l) || (from[l] == 0 && (full || (l + 1) % apart_ != 0))) continue;
      notches at = from;
      const auto with = [&](std::size_t notch) -> const notches& { return at[l] = notch, at; };
      std::size_t first = from[l] + 1;
      while (first <= how_.shares.size() && rows(with(first)) >= bound - rounding) ++first;
      if (first > how_.shares.size() || !holds(with(first))) continue;
      std::size_t held = first, beyond = how_.shares.size() + 1;
      while (beyond - held > 1) {
        const std::size_t middle = (held + beyond) / 2;
        (holds(with(middle)) ? held : beyond) = middle;
      }
      best = with(held);
      bound = rows(*best);
    }
    return best;
  }

  std::vector<notches> softened(const notches& from) const {
    std::vector<notches> all;
    for (std::size_t l = 0; l < from.size(); ++l) {
      if (from[l] == 0) continue;
      notches at = from;
      --at[l];
      all.push_back(at);
      at[l] = 0;
      if (from[l] > 1) all.push_back(at);
      std::size_t next = l + 1;
      while (next < from.size() && !stands(next)) ++next;
      if (next < from.size() && from[next] == 0) {
        at[next] = from[l];
        all.push_back(at);
      }
    }
    return all;
  }

  stage_score scored(const stage_score& said) const { return said; }
  stage_score scored(double score) const { return {score, tried_.empty() ? 0 : result_.trail.front().score - score}; }

  bool holds(const notches& at) {
    if (const auto known = std::ranges::find(tried_, at); known != tried_.end())
      return result_.trail[static_cast<std::size_t>(known - tried_.begin())].holds;
    for (std::size_t i = 0; i < tried_.size(); ++i)
      if (!result_.trail[i].holds && harder(at, tried_[i])) return false;
    stages when = stages_of(at);
    if (!tried_.empty() && (tried_.size() >= how_.most_evaluations || (how_.enough && how_.enough(when)))) return result_.complete = false;
    const stage_score said = scored(evaluate_(std::as_const(when)));
    const bool held = tried_.empty() || said.loss <= how_.max_loss + rounding;
    tried_.push_back(at);
    result_.trail.push_back({std::move(when), rows(at), said.score, said.loss, held});
    return result_.trail.back().holds;
  }

  /// Returns whether no layer has more active tokens with `a` than with `b`.
  bool harder(const notches& a, const notches& b) const {
    double active_a = 1, active_b = 1;
    for (std::size_t l = 0; l < a.size(); ++l) {
      if (a[l] > 0) active_a *= how_.shares[a[l] - 1];
      if (b[l] > 0) active_b *= how_.shares[b[l] - 1];
      if (active_a > active_b + rounding) return false;
    }
    return true;
  }

  static constexpr layer_id coarse = 8;  // the first, coarse search tries at most this many places for a stage
  static constexpr double rounding = 1e-9;

  const stage_search& how_;
  layer_id layers_;
  layer_id apart_ = 1;  // new stages are tried only after a multiple of this many layers
  Evaluate& evaluate_;
  std::vector<notches> tried_;  // parallel to the trail
  stage_search_result result_;
};

}  // namespace detail

template <class Evaluate>
stage_search_result stage_search::operator()(layer_id layers, Evaluate evaluate) const {
  double above = 1;
  for (const double share : shares) {
    if (!(share > 0 && share < above)) throw error("", "stage_search", "descending shares, each in (0, 1)", text_of_number(share));
    above = share;
  }
  return detail::stage_searcher(*this, layers, evaluate).run();
}

}  // namespace v0
}  // namespace lazyprune
