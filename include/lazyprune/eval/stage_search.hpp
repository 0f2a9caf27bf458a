// SPDX-License-Identifier: MIT
// Which stages prune most at a loss of accuracy that can be borne? The paper draws one schedule and does not say how it was found; here
// one is searched for a model and the samples of a task.
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

/// Stages that were tried.
struct searched_stages {
  stages when;
  double rows;   // share of the dense prefill's (rows_share)
  double score;  // 0 to 100
  double loss;   // what is held against the bound
  bool holds;    // its loss is within the bound
  friend bool operator==(const searched_stages&, const searched_stages&) = default;
};

/// What an evaluation may say where it knows better than the score how much is lost.
struct stage_score {
  double score;  // 0 to 100
  double loss;   // points of score, as the caller counts them
};

struct stage_search_result {
  std::vector<searched_stages> trail;  // in the order in which they were tried; the dense model first
  std::size_t best = 0;                // in the trail: of those that hold, the one with the fewest rows
  bool complete = true;                // ended neither by the limit of evaluations nor by `enough`
  friend bool operator==(const stage_search_result&, const stage_search_result&) = default;
};

/// Local search over stages after each of a model's layers, each with a share of a grid or none:
///  1. Lower: to the best stages so far add one stage, if there may be more, or lower the share of one, wherever that leaves the fewest
///     rows. Of each layer the lowest share that holds is found by bisection, after a first try whether it can beat the best layer so far
///     at all.
///  2. Exchange, where 1 finds nothing: soften one stage (one share up, one layer later, or away) and lower as in 1, if that leaves fewer
///     rows than the best stages have.
/// Both repeat until neither finds anything. Deeper models are searched by 1 alone first, at about 8 layers spread evenly, then at twice
/// as many, and so on. What prunes harder than stages that did not hold (at every layer no more tokens active) is taken not to hold either
/// and is not tried; nothing is tried twice; and the result is a function of the scores and losses.
///
/// It finds a local optimum: no single change of a stage, nor an exchange, improves it. Scores that rise where more is pruned, by chance
/// of few samples say, can hide better stages; and the best of many tries on some samples looks better than it is: score it on others, and
/// of few samples take the loss to be what it may be (`stage_score`), not what it seems.
/// A round of 1 tries about one schedule a layer and some more, one of 2 up to that for each softening; many are ruled out untried.
struct stage_search {
  double max_loss = 1.0;                                           // points of score
  std::vector<double> shares{0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05};  // falling, each in (0, 1)
  std::size_t most_evaluations = 100;                              // the dense model's among them
  std::size_t most_stages = 0;                                     // 0: as many as there are layers
  std::optional<std::vector<layer_id>> after{};                    // so many layers may be done where a stage stands; none: any number
  std::function<bool(const stages&)> enough{};                     // says before each evaluation but the first whether to leave it out

  /// Searches for a model of so many layers; evaluate(const stages&) gives a score from 0 to 100, whose loss is its distance to the dense
  /// model's, or a `stage_score`; it is first asked for no stages, the dense model. Throws `error` where the shares are no such grid, and
  /// what `evaluate` throws.
  template <class Evaluate>
  stage_search_result operator()(layer_id layers, Evaluate evaluate) const;

  /// Once these stages did not hold, for a model of so many layers: after how many layers whatever is tried from then on begins to prune,
  /// at the soonest. A single stage with the largest share rules out what prunes there or sooner; others rule out no layer.
  layer_id first_after(const stages& failed, layer_id layers) const {
    if (failed.list().size() != 1 || failed.list().front().share != shares.front()) return 0;
    layer_id next = failed.list().front().after + 1;
    while (next < layers && !stands(next)) ++next;
    return next;
  }

  /// Whether a stage may stand after so many layers.
  bool stands(layer_id done) const { return !after || std::ranges::find(*after, done) != after->end(); }
};

/// What was tried and nothing else beats: rows rise, and each has a higher score than all before it.
inline std::vector<searched_stages> best_trades(std::vector<searched_stages> tried) {
  std::ranges::stable_sort(tried, [](const auto& a, const auto& b) { return a.rows != b.rows ? a.rows < b.rows : a.score > b.score; });
  std::vector<searched_stages> best;
  for (searched_stages& point : tried)
    if (best.empty() || point.score > best.back().score) best.push_back(std::move(point));
  return best;
}

namespace detail {

/// notches[l]: the stage after layer l + 1: 0 for none, n for the grid's share n - 1.
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

  /// Lowers one share: of what then holds, returns what has the fewest rows; none where these are not below `bound`.
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

  /// Whether at every layer no more tokens are active.
  bool harder(const notches& a, const notches& b) const {
    double active_a = 1, active_b = 1;
    for (std::size_t l = 0; l < a.size(); ++l) {
      if (a[l] > 0) active_a *= how_.shares[a[l] - 1];
      if (b[l] > 0) active_b *= how_.shares[b[l] - 1];
      if (active_a > active_b + rounding) return false;
    }
    return true;
  }

  static constexpr layer_id coarse = 8;  // layers of a first, rough search
  static constexpr double rounding = 1e-9;

  const stage_search& how_;
  layer_id layers_;
  layer_id apart_ = 1;  // new stages go after layers that are multiples of this
  Evaluate& evaluate_;
  std::vector<notches> tried_;  // beside the trail
  stage_search_result result_;
};

}  // namespace detail

template <class Evaluate>
stage_search_result stage_search::operator()(layer_id layers, Evaluate evaluate) const {
  double above = 1;
  for (const double share : shares) {
    if (!(share > 0 && share < above)) throw error("", "stage_search", "shares that fall, each in (0, 1)", text_of_number(share));
    above = share;
  }
  return detail::stage_searcher(*this, layers, evaluate).run();
}

}  // namespace v0
}  // namespace lazyprune
