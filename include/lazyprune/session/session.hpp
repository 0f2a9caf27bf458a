// SPDX-License-Identifier: MIT
// The pruning session: LazyLLM's bookkeeping for one sequence (arXiv 2407.14057, section 3; the Aux Cache). It plans; the engine
// computes and owns all memory. Every token has a frontier, the number of layers that have its keys and values; it only grows, so no
// (token, layer) is ever computed twice. Each step starts anew from all known tokens, which is what lets a pruned token come back.
//
//   lazyprune::session s{policy, {.layers = L, .max_tokens = n}};
//   auto step = s.begin(new_tokens, phase::prefill);
//   for (layer_id l = 0; l < L; ++l) {
//     const layer_plan& p = step.enter(l);      // gather p.sources, compute p.rows, attend over p.active
//     if (step.wants_scores()) step.leave(view_over_my_attention_row);
//     else                     step.leave();
//     for (const spill& s : step.spills()) ...  // save these outputs in the aux memory
//   }
//   step.finish();
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/policy.hpp>
#include <lazyprune/session/frontier_table.hpp>
#include <lazyprune/session/statistics.hpp>
#include <lazyprune/session/step.hpp>

namespace lazyprune {
inline namespace v0 {

struct session_options {
  layer_id layers;             // of the model
  std::size_t max_tokens = 0;  // reserved at once; 0: grows with the sequence
};

/// Costs are linear in the known tokens. After `reserve` (or with max_tokens) nothing allocates, and only `begin` reports errors.
template <class Scorer, class Schedule, class Selector, class Store>
class session {
 public:
  using policy_type = policy<Scorer, Schedule, Selector, Store>;

  session(policy_type policy, session_options options) : pristine_(std::move(policy)), policy_(pristine_), layers_(options.layers) {
    if (layers_ == 0) report_error(error("session", "layers", "at least 1", "0"));
    statistics_.prefill_rows.assign(layers_, 0);
    statistics_.prefill_dense_rows.assign(layers_, 0);
    if (options.max_tokens > 0) reserve(options.max_tokens);
  }
  session(session&&) noexcept = default;
  session& operator=(session&&) noexcept = default;

  /// Makes room for sequences of so many tokens; from then on it is a limit, and nothing allocates.
  void reserve(std::size_t max_tokens) {
    if (max_tokens < known() || max_tokens >= frontier_table::no_slot)
      report_error(error("session", "reserve", "the tokens known (" + std::to_string(known()) + ") or more, below 2^32 - 1",
                         std::to_string(max_tokens)));
    grow(max_tokens);
    limit_ = max_tokens;
  }

  /// Forgets the sequence: tokens, statistics and what the scorer remembered.
  void reset() {
    policy_ = pristine_;
    table_.clear();
    std::ranges::fill(memory_, 0.0f);
    std::ranges::fill(statistics_.prefill_rows, 0);
    std::ranges::fill(statistics_.prefill_dense_rows, 0);
    statistics_ = {.prefill_rows = std::move(statistics_.prefill_rows), .prefill_dense_rows = std::move(statistics_.prefill_dense_rows)};
    in_step_ = false;
  }

  /// Begins a forward pass over `new_tokens` >= 1 tokens that follow those known. Reports `error` where there is no room for them
  /// (no_room), or where the step before was not finished (wrong_order).
  step<session> begin(std::size_t new_tokens, phase phase) {
    if (in_step_)
      report_error(
          error("session", "begin", "the last step finished, or reset()", "a step that was left unfinished", error_code::wrong_order));
    if (new_tokens == 0) report_error(error("session", "begin", "at least one new token", "none"));
    const std::size_t room = (limit_ > 0 ? limit_ : frontier_table::no_slot - 1) - known();
    if (new_tokens > room)
      report_error(error("session", "begin", "at most " + std::to_string(room) + " more tokens (reserved)", std::to_string(new_tokens),
                         error_code::no_room));
    if (known() + new_tokens > capacity_) grow(std::max(known() + new_tokens, limit_ > 0 ? 0 : 2 * capacity_));
    table_.append(new_tokens);
    if (needs().every_layer) memory_.resize(known(), 0.0f);
    phase_ = phase;
    in_step_ = true;
    layer_ = 0;
    inside_ = false;
    ++statistics_.steps;
    statistics_.dense_rows += new_tokens * layers_;
    if (phase == phase::prefill)
      for (std::size_t& rows : statistics_.prefill_dense_rows) rows += new_tokens;
    return step<session>(*this);
  }

  layer_id layers() const noexcept { return layers_; }
  std::size_t known() const noexcept { return table_.known(); }
  const frontier_table& tokens() const noexcept { return table_; }
  const statistics& stats() const noexcept { return statistics_; }
  const policy_type& policy_in_use() const noexcept { return pristine_; }

 private:
  friend class step<session>;
  template <class>
  friend class session_adapter;

  using view_type = view_of<Scorer>;
  using evidence_type = evidence_of<Scorer>;
  static constexpr bool scores_positions = std::same_as<evidence_type, token_view>;
  static constexpr float infinity = std::numeric_limits<float>::infinity();

  void grow(std::size_t tokens) {
    if (tokens <= capacity_) return;
    table_.reserve(tokens);
    for (auto* positions : {&active_, &next_, &candidates_, &rows_, &last_rows_, &arrivals_, &stored_}) positions->reserve(tokens);
    for (auto* scores : {&scores_, &candidate_scores_, &stored_scores_}) scores->reserve(tokens);
    kept_.resize(tokens);
    sources_.reserve(tokens);
    spills_.reserve(tokens);
    if (needs().every_layer) memory_.reserve(tokens);
    capacity_ = tokens;  // last: what throws on the way changes nothing
  }

  const layer_plan& enter([[maybe_unused]] layer_id layer) noexcept {
    assert(in_step_ && !inside_ && layer == layer_ && layer < layers_);
    inside_ = true;
    spills_.clear();
    if (layer_ == 0) start();

    rows_.swap(last_rows_);
    rows_.clear();
    sources_.clear();
    std::size_t carried = 0;
    for (const position t : active_) {
      if (table_.frontier(t) != layer_) continue;
      rows_.push_back(t);
      while (carried < last_rows_.size() && last_rows_[carried] < t) ++carried;
      if (layer_ == 0) {
        sources_.push_back({row_source::origin::embedding, t});
      } else if (carried < last_rows_.size() && last_rows_[carried] == t) {
        sources_.push_back({row_source::origin::carried, static_cast<std::uint32_t>(carried)});
      } else {
        sources_.push_back({row_source::origin::stored, table_.slot(t)});
        ++statistics_.revived;
      }
    }
    statistics_.rows += rows_.size();
    if (phase_ == phase::prefill) statistics_.prefill_rows[layer_] += rows_.size();

    const bool last = layer_ + 1 == layers_;
    quota_ = last ? everything : quota_without_scores(context(layer_ + 1, active_.size()));
    const bool scored = !last && (needs().every_layer || by_scores() || quota_ != everything);
    wants_ = scored ? needs().kind : evidence_kind::none;
    plan_ = {.layer = layer_, .active = active_, .rows = rows_, .sources = sources_, .finish = last ? 1 : rows_.size()};
    return plan_;
  }

  evidence_kind wants() const noexcept { return wants_; }
  std::size_t window() const noexcept { return std::min(needs().window, rows_.size()); }

  /// Nothing is pruned where the evidence that is wanted does not come, a mistake of the engine's that debug builds stop at.
  void leave() noexcept {
    assert(wants_ == evidence_kind::none && "this layer's evidence is wanted");
    advance();
    prune(score_positions());
  }

  /// Evidence that is not wanted decides nothing; evidence of another kind is not the one that is wanted.
  void leave(const evidence_type& view) noexcept requires(!scores_positions) {
    if (wants_ == evidence_kind::none || kind_shown(view) != wants_) return leave();
    assert(active_in(view) == active_.size());
    advance();
    scores_.resize(active_.size());
    if constexpr (std::same_as<view_type, evidence_type>)
      policy_.scorer.score(view, std::span(scores_));
    else
      policy_.scorer.score(view_type{view, layer_ - 1, std::span(memory_)}, std::span(scores_));
    prune(true);
  }

  std::span<const spill> spills() const noexcept { return spills_; }
  float margin() const noexcept { return margin_; }

  void finish() noexcept {
    assert(in_step_ && !inside_ && layer_ == layers_);
    in_step_ = inside_ || layer_ != layers_;  // finished too early it is not finished
  }

  layer_context context(layer_id done, std::size_t active) const noexcept {
    return {.done = done, .layers = layers_, .active = active, .known = known(), .step = phase_};
  }

  static evidence_kind kind_shown(const evidence_type& view) noexcept {
    if constexpr (chosen_scorer<Scorer>)
      return static_cast<evidence_kind>(view.index());
    else
      return kind_of<evidence_type>();
  }
  [[maybe_unused]] static std::size_t active_in(const evidence_type& view) noexcept {
    if constexpr (chosen_scorer<Scorer>)
      return std::visit([](const auto& shown) { return shown.active(); }, view);
    else
      return view.active();
  }

  scorer_needs needs() const noexcept { return needs_of(policy_.scorer); }
  bool by_scores() const noexcept { return sees_scores(policy_.schedule); }

  /// `everything` where the schedule has to see the scores first.
  std::size_t quota_without_scores(const layer_context& context) const noexcept {
    if constexpr (layer_schedule<Schedule>)
      if (!by_scores()) return policy_.schedule.keep(context);
    return everything;
  }

  /// All known tokens take part in layer 0, less the lost and those that a method of positions drops before it.
  void start() noexcept {
    rows_.clear();
    active_.resize(known());
    std::iota(active_.begin(), active_.end(), position{0});
    if (needs().kind == evidence_kind::none) quota_ = quota_without_scores(context(0, active_.size()));
    prune(score_positions());
  }

  /// A scorer of positions needs nothing from the engine. Returns false where the scorer is not one, or where its scores decide nothing.
  bool score_positions() noexcept {
    if (needs().kind != evidence_kind::none || layer_ == layers_ || !(by_scores() || quota_ != everything)) return false;
    scores_.resize(active_.size());
    [[maybe_unused]] const token_view tokens{active_, layer_, known()};
    if constexpr (scores_positions) policy_.scorer.score(tokens, std::span(scores_));
    if constexpr (chosen_scorer<Scorer>) policy_.scorer.score(every_layer<evidence>{tokens, layer_, {}}, std::span(scores_));
    return true;
  }

  /// The rows have this layer's keys and values now.
  void advance() noexcept {
    assert(inside_);
    inside_ = false;
    ++layer_;
    for (const position t : rows_) table_.advance(t, layer_);
  }

  /// Decides who enters layer `layer_`; `scored`: scores_ holds the scores of the active tokens.
  void prune(bool scored) noexcept {
    margin_ = std::numeric_limits<float>::quiet_NaN();
    if (layer_ == layers_) return;
    if (scored && by_scores()) quota_ = ask(policy_.schedule, context(layer_, active_.size()), scores_);
    if (scored && quota_ != everything) {
      select();
    } else if (table_.lost_count() > 0) {
      std::erase_if(active_, [&](position t) { return stuck(t); });
    }
  }

  /// Its next layer is the one to come, and its hidden state is gone.
  bool stuck(position t) const noexcept { return table_.frontier(t) == layer_ && table_.lost(t); }

  void select() noexcept {
    candidates_.clear();
    candidate_scores_.clear();
    for (std::size_t i = 0; i < active_.size(); ++i) {
      if (stuck(active_[i])) continue;
      candidates_.push_back(active_[i]);
      candidate_scores_.push_back(std::isnan(scores_[i]) ? -infinity : scores_[i]);
    }
    const std::size_t n = candidates_.size();
    const std::size_t keep = std::min(std::clamp<std::size_t>(quota_, 1, active_.size()), n);
    float& query = candidate_scores_.back();
    const float mass = std::isfinite(query) ? query : 0.0f;
    query = infinity;
    std::size_t kept = policy_.selector.select(
        candidates{.scores = candidate_scores_, .positions = candidates_, .keep = keep, .required_mass = mass}, std::span(kept_).first(n));
    assert(kept <= n);
    if (kept == 0 || kept_[kept - 1] != n - 1) kept_[kept++] = static_cast<std::uint32_t>(n - 1);  // whoever selects: the query token stays

    next_.clear();
    arrivals_.clear();
    float least_kept = infinity, best_dropped = -infinity;
    for (std::size_t i = 0, k = 0; i < n; ++i) {
      const position t = candidates_[i];
      const float score = candidate_scores_[i];
      if (k < kept && kept_[k] == i) {
        ++k;
        next_.push_back(t);
        least_kept = std::min(least_kept, score);
        if (table_.stored(t) && table_.frontier(t) == layer_) table_.rescore(t, infinity);  // about to be read: its slot must not go
      } else {
        best_dropped = std::max(best_dropped, score);
        table_.rescore(t, score);
        if (table_.frontier(t) == layer_ && !table_.stored(t)) arrivals_.push_back(t);
      }
    }
    if (kept < n && least_kept < infinity && least_kept >= best_dropped)
      margin_ = least_kept == best_dropped ? 0.0f : (least_kept - best_dropped) / std::abs(least_kept);
    active_.swap(next_);
    if (!arrivals_.empty()) admit();
  }

  /// The store decides which hidden states have a place: those that it holds and those that arrive.
  void admit() noexcept {
    const bool embeddings = layer_ == 0;
    stored_.clear();
    stored_scores_.clear();
    if (embeddings || table_.stored_count() == 0) {
      stored_ = arrivals_;
    } else {
      for (std::size_t t = 0, a = 0; t < known(); ++t) {
        const bool arrives = a < arrivals_.size() && arrivals_[a] == t;
        if (arrives) ++a;
        if (arrives || table_.stored(static_cast<position>(t))) stored_.push_back(static_cast<position>(t));
      }
    }
    for (const position t : stored_) stored_scores_.push_back(table_.score(t));

    const std::size_t kept = policy_.store.admit(stored_rows{.scores = stored_scores_, .positions = stored_, .embeddings = embeddings},
                                                 std::span(kept_).first(stored_.size()));
    assert(kept <= stored_.size());
    for (std::size_t i = 0, k = 0; i < stored_.size(); ++i) {
      if (k < kept && kept_[k] == i)
        ++k;
      else if (!(table_.stored(stored_[i]) && stored_scores_[i] == infinity))
        table_.lose(stored_[i]);
    }
    if (embeddings) return;  // looked up again when wanted

    std::size_t row = 0;
    for (const position t : arrivals_) {
      if (table_.lost(t)) continue;
      table_.store(t);
      while (rows_[row] != t) ++row;
      spills_.push_back({static_cast<std::uint32_t>(row), table_.slot(t)});
    }
  }

  policy_type pristine_;
  policy_type policy_;
  layer_id layers_;
  std::size_t limit_ = 0;     // tokens, by reserve; 0: none
  std::size_t capacity_ = 0;  // tokens
  frontier_table table_;
  statistics statistics_;

  // The step in progress.
  phase phase_ = phase::prefill;
  bool in_step_ = false;
  bool inside_ = false;             // a layer is entered and not yet left
  layer_id layer_ = 0;              // entered or to be entered; its number is also that of the layers done
  std::size_t quota_ = everything;  // what the schedule answered: so many tokens go on
  evidence_kind wants_ = evidence_kind::none;
  float margin_ = std::numeric_limits<float>::quiet_NaN();
  layer_plan plan_{};
  std::vector<position> active_, next_;     // ascending
  std::vector<position> rows_, last_rows_;  // of this layer and of the one before, ascending
  std::vector<row_source> sources_;         // (rows)
  std::vector<spill> spills_;
  std::vector<float> scores_;            // (active)
  std::vector<position> candidates_;     // active tokens that can go on, ascending
  std::vector<float> candidate_scores_;  // (candidates)
  std::vector<std::uint32_t> kept_;      // indices, scratch of selector and store
  std::vector<position> arrivals_;       // dropped rows that want a slot, ascending
  std::vector<position> stored_;         // they and the rows stored, ascending
  std::vector<float> stored_scores_;     // (stored)
  std::vector<float> memory_;            // (known), of a scorer that remembers
};

}  // namespace v0
}  // namespace lazyprune
