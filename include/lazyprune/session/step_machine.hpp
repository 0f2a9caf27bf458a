// SPDX-License-Identifier: MIT
// The order of a session's calls and the bookkeeping that no policy decides: which rows a layer computes and where their inputs lie, what
// is undone when a step is abandoned or the sequence is cut, and the counts. A session adds the policy (session/session.hpp).
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/evidence.hpp>
#include <lazyprune/core/plan.hpp>
#include <lazyprune/session/admission.hpp>
#include <lazyprune/session/frontier_table.hpp>
#include <lazyprune/session/selection.hpp>
#include <lazyprune/session/statistics.hpp>
#include <lazyprune/session/step_fault.hpp>

namespace lazyprune {
inline namespace v0 {

/// What a step is asked to do.
struct step_request {
  std::size_t tokens;  // new ones, at least 1, at the end of the sequence
  lazyprune::phase phase = lazyprune::phase::prefill;
  /// The last so many new tokens, 0 to all, are required at every layer, and the last layer finishes them; the last one alone scores. Where
  /// all are outputs, no new token is pruned. Without outputs the step is a chunk: it has no query, it ends before the first layer that
  /// could prune, and its rows wait there for a step with a query.
  std::size_t outputs = 1;
};

struct session_options {
  layer_id layers;                       // of the model
  std::size_t max_tokens = 0;            // reserved at once; 0: grows with the sequence
  selection_scratch* scratch = nullptr;  // shared by sessions of one thread, which it must outlive; null: the session's own
};

template <class Session>
class step;

/// What every session is, whatever its policy.
class step_machine {
 public:
  /// A session reserves so much for each token, beside the scratch, and 4 more where the scorer asks for evidence at every layer.
  static constexpr std::size_t bytes_per_token =
      frontier_table::bytes_per_token + 4 * sizeof(position) + sizeof(row_source) + sizeof(spill);

  virtual ~step_machine() = default;

  layer_id layers() const noexcept { return layers_; }
  std::size_t known() const noexcept { return table_.known(); }
  const frontier_table& tokens() const noexcept { return table_; }
  const statistics& stats() const noexcept { return statistics_; }

  /// The layers that a chunk of that phase runs before its rows wait, whatever its length: those below the first pruning that the policy
  /// could do, less one where the evidence there has to be computed whole in the query's step. All layers where nothing can be pruned.
  virtual layer_id chunk_layers(phase phase) const noexcept = 0;

  /// No later plan will contain these tokens, and their keys and values can be freed. They are those that were lost so since the last
  /// `begin`, ascending; valid until the session is next changed. Those of a step that is abandoned stay, but for its new tokens.
  std::span<const position> losses() const noexcept { return losses_; }

  /// Reports the `error` that `begin` would.
  void check(const step_request& request) const {
    require_between_steps("begin");
    if (request.tokens == 0) report_error(error("session", "begin", "at least one new token", "none"));
    if (request.outputs > request.tokens)
      report_error(error("session", "begin", "at most as many outputs as new tokens (" + std::to_string(request.tokens) + ")",
                         std::to_string(request.outputs)));
    require_room("begin", request.tokens);
  }

  /// Makes room for sequences of so many tokens, between steps; from then on it is a limit, and nothing allocates.
  void reserve(std::size_t max_tokens) {
    require_between_steps("reserve");
    if (max_tokens < known() || max_tokens >= frontier_table::no_slot)
      report_error(error("session", "reserve", "the tokens known (" + std::to_string(known()) + ") or more, below 2^32 - 1",
                         std::to_string(max_tokens)));
    grow(max_tokens);
    limit_ = max_tokens;
  }

  /// Makes room for sequences of so many tokens, or of `limit()` where that is less: steps up to that length allocate nothing. It sets no
  /// limit and changes none.
  void make_room(std::size_t tokens) { grow(std::min(tokens, limit())); }

  /// The most tokens that the sequence can have: what was reserved, or all that positions can count.
  std::size_t limit() const noexcept { return limit_ > 0 ? limit_ : frontier_table::no_slot - 1; }

  /// Forgets the sequence: tokens, statistics and what the scorer remembered.
  void reset() {
    forget_from(0);
    std::ranges::fill(statistics_.prefill_rows, 0);
    std::ranges::fill(statistics_.prefill_dense_rows, 0);
    statistics_ = {.prefill_rows = std::move(statistics_.prefill_rows), .prefill_dense_rows = std::move(statistics_.prefill_dense_rows)};
  }

  /// Forgets the tokens from `tokens` <= known on, between steps. Nothing is undone of what forgotten steps did to the tokens that stay:
  /// frontiers that moved on, losses, scores, what a scorer gathered. `truncate(0)` is `reset` but for the statistics.
  void truncate(std::size_t tokens) {
    require_between_steps("truncate");
    if (tokens > known())
      report_error(error("session", "truncate", "at most the tokens known (" + std::to_string(known()) + ")", std::to_string(tokens)));
    forget_from(tokens);
  }

  /// Takes in `tokens` more whose keys and values somebody has computed at all layers, between steps. They are counted nowhere. Reports
  /// `error` where there is no room for them.
  void adopt(std::size_t tokens) {
    require_between_steps("adopt");
    require_room("adopt", tokens);
    grow_by(tokens);
    append(tokens, layers_);
  }

  /// Goes on from where `other` stands, under this session's own policy; both between steps, this one without a token yet. What a chunk
  /// computes does not depend on the policy, so `other` may have read chunks alone (an unfinished document, many ways to prune it), and
  /// none that ran more layers than this policy's chunks do (`chunk_layers`). Reports `error` otherwise. Counts and slots become
  /// those of `other`: its waiting rows go on waiting, in a copy of its memory.
  void take_over(const step_machine& other) {
    require_between_steps("take_over");
    other.require_between_steps("take_over");
    const auto refuse = [](const char* expected, const std::string& found) {
      report_error(error("session", "take_over", expected, found));
    };
    if (known() > 0) refuse("a session without tokens", std::to_string(known()));
    if (layers_ != other.layers_) refuse("as many layers", std::to_string(other.layers_) + " and not " + std::to_string(layers_));
    require_room("take_over", other.known());
    const layer_id most = chunk_layers(phase::prefill);
    if (other.queried_) refuse("one that has read chunks alone", "a step with a query");
    for (position t = 0; t < other.known(); ++t)
      if (other.table_.frontier(t) > most || other.table_.lost(t))
        refuse("tokens of chunks of at most this policy's layers", "token " + std::to_string(t) + " after layer " +
                                                                       std::to_string(other.table_.frontier(t)) + ", and not " +
                                                                       std::to_string(most));
    grow_by(other.known());
    table_ = other.table_;
    statistics_ = other.statistics_;
    settled_ = other.settled_;
    if (remembers_) memory_.assign(known(), 0.0f);
  }

  /// Gives up the step in progress. Its new tokens are forgotten, and older ones are lost where their hidden state was carried from one
  /// layer to the next. Spills count as saved once the next layer is entered. Frontiers that moved on stay where they are. The keys of a
  /// layer that was entered and not left are to be taken back.
  void abandon() {
    if (in_step_) {
      const auto older = static_cast<position>(known() - request_.tokens);
      lose_unsaved();
      for (position t = 0; t < older; ++t)
        if (table_.frontier(t) > 0 && !table_.settled(t, layers_) && !table_.has_slot(t)) table_.lose(t);
      count_dense_rows(std::size_t{0} - request_.tokens);  // takes them back, modulo 2^64
      forget_from(older);
    } else {
      end_step();
    }
  }

 protected:
  step_machine(const session_options& options, bool remembers)
      : layers_(options.layers), remembers_(remembers), shared_scratch_(options.scratch) {
    if (layers_ == 0) report_error(error("session", "layers", "at least 1", "0"));
    statistics_.prefill_rows.assign(layers_, 0);
    statistics_.prefill_dense_rows.assign(layers_, 0);
    if (options.max_tokens > 0) reserve(options.max_tokens);
  }

  /// Between steps. The copy has the same limit, and the same room reserved.
  step_machine(const step_machine& other) : step_machine({.layers = other.layers_, .scratch = other.shared_scratch_}, other.remembers_) {
    other.require_between_steps("copy");
    grow(other.capacity_);
    limit_ = other.limit_;
    table_ = other.table_;
    statistics_ = other.statistics_;
    losses_ = other.losses_;
    memory_ = other.memory_;
    active_ = other.active_;
    listed_ = other.listed_;
    settled_ = other.settled_;
    queried_ = other.queried_;
  }
  step_machine(step_machine&&) noexcept = default;
  step_machine& operator=(step_machine&&) noexcept = default;

  void begin(const step_request& request) {
    check(request);
    grow_by(request.tokens);
    append(request.tokens, 0);
    end_step();
    request_ = request;
    depth_ = request.outputs > 0 ? layers_ : chunk_layers(request.phase);
    layer_ = 0;
    in_step_ = true;
    queried_ |= request.outputs > 0;
    losses_.clear();
    count_dense_rows(request.tokens);
  }

  // What the policy decides. `prune` is called before layer 0, with no evidence, and after each layer but the last of a step with a query:
  // it chooses who goes on to layer `layers_done()`.
  virtual evidence_kind ask_schedule() noexcept = 0;  // inside a layer: the evidence that it has to yield
  virtual void prune(const evidence& shown) noexcept = 0;
  virtual std::size_t most_queries() const noexcept = 0;
  /// All that the scorer reads of attention's heads; none: each of them.
  virtual std::optional<head_reduction> heads_read() const noexcept = 0;
  virtual void forget_policy() = 0;
  virtual std::unique_ptr<step_machine> clone() const = 0;

  layer_id layers_done() const noexcept { return layer_; }
  layer_context context(layer_id done) const noexcept {
    return {.done = done, .layers = layers_, .active = active_.size(), .known = known(), .step = request_.phase};
  }
  std::span<const position> active() const noexcept { return active_; }
  std::size_t rows() const noexcept { return rows_.size(); }
  std::size_t window() const noexcept { return std::min(most_queries(), rows()); }
  evidence_kind wanted() const noexcept { return wanted_; }
  selection_scratch& scratch() noexcept { return shared_scratch_ ? *shared_scratch_ : own_scratch_; }
  std::span<float> memory() noexcept { return memory_; }
  /// Notes what went wrong with so many layers done, where it is the first fault of the step.
  void note_fault(layer_id done, const decltype(step_fault::what)& what) noexcept {
    if (!fault_) fault_ = {done, what};
  }

  /// Its next layer is the one to come, and its hidden state is gone.
  bool stuck(position t) const noexcept { return table_.frontier(t) == layer_ && table_.lost(t); }

  void drop_stuck() noexcept {
    if (table_.lost_count() > 0 && std::erase_if(active_, [&](position t) { return stuck(t); }) > 0) listed_ = 0;
  }

  /// By the scores in the scratch (active): at most `quota` tokens go on, and the store decides what becomes of the others. A list of
  /// theirs that is wrong is noted, and nothing is lost by it.
  template <class Selector, class Store>
  void select_and_admit(const Selector& selector, const Store& store, std::size_t quota) noexcept {
    const std::size_t before = active_.size(), losses = losses_.size();
    const auto first_output = static_cast<position>(known() - request_.outputs);
    const selection_outcome chosen = select(selector, {quota, first_output}, active_, scratch(), [&](position t) { return !stuck(t); });
    margin_ = chosen.margin;
    if (chosen.fault) note_fault(layer_, wrong_indices{"selector", *chosen.fault});
    const std::optional<index_fault> refused = admission{layer_, active_, rows_, table_, scratch()}.admit(store, spills_, losses_);
    if (refused) note_fault(layer_, wrong_indices{"store", *refused});
    if (!std::ranges::is_sorted(losses_)) std::ranges::sort(losses_);
    const std::size_t gone = drops_for_good(store) ? losses_.size() - losses : 0;
    if (active_.size() + gone < before) listed_ = 0;
  }

 private:
  template <class>
  friend class step;
  friend class any_session;
  using origin = row_source::origin;

  void require_between_steps(const char* what) const {
    if (in_step_ || out_of_order_)
      report_error(error("session", what, "the last step finished, abandon() or reset()", "a step that was left unfinished",
                         error_code::wrong_order));
  }

  void require_room(const char* what, std::size_t tokens) const {
    const std::size_t room = limit() - known();
    if (tokens > room)
      report_error(error("session", what, "at most " + std::to_string(room) + " more tokens (reserved)", std::to_string(tokens),
                         error_code::no_room));
  }

  void grow_by(std::size_t tokens) {
    if (known() + tokens > capacity_) grow(std::max(known() + tokens, limit_ > 0 ? 0 : 2 * capacity_));
  }

  void grow(std::size_t tokens) {
    scratch().reserve(tokens);
    if (tokens <= capacity_) return;
    table_.reserve(tokens);
    for (auto* positions : {&active_, &rows_, &last_rows_, &losses_}) positions->reserve(tokens);
    sources_.reserve(tokens);
    spills_.reserve(tokens);
    if (remembers_) memory_.reserve(tokens);
    capacity_ = tokens;  // last: what throws on the way changes nothing
  }

  void append(std::size_t tokens, layer_id frontier) noexcept {
    table_.append(tokens, frontier);
    if (remembers_) memory_.resize(known(), 0.0f);
  }

  void forget_from(std::size_t tokens) {
    if (tokens == 0)
      table_.clear();
    else
      table_.truncate(tokens);
    if (remembers_) memory_.resize(tokens);
    const auto forgotten = [&](std::vector<position>& list) { return std::ranges::lower_bound(list, tokens); };
    losses_.erase(forgotten(losses_), losses_.end());
    active_.erase(forgotten(active_), active_.end());
    listed_ = std::min(listed_, tokens);
    settled_ = std::min(settled_, tokens);
    end_step();
    if (tokens > 0) return;
    queried_ = false;
    forget_policy();  // last: a user's may throw
  }

  /// Nothing of the last step is left to see, and the next one may begin.
  void end_step() noexcept {
    in_step_ = inside_ = out_of_order_ = false;
    fault_.reset();
    wanted_ = evidence_kind::none;
    margin_ = std::numeric_limits<float>::quiet_NaN();
    spills_.clear();
    rows_.clear();
    plan_ = {};
  }

  void count_dense_rows(std::size_t tokens) noexcept {
    statistics_.dense_rows += tokens * layers_;
    if (request_.phase == phase::prefill)
      for (std::size_t& rows : statistics_.prefill_dense_rows) rows += tokens;
  }

  const layer_plan& enter(layer_id layer) noexcept {
    if (!in_step_ || inside_ || out_of_order_ || layer != layer_ || layer_ >= depth_) {
      out_of_order_ = true;
      wanted_ = evidence_kind::none;
      plan_ = {.layer = layer, .active = {}, .rows = {}, .sources = {}, .finish = 0};
      return plan_;
    }
    spills_are_saved();
    if (layer_ == 0) list_all();
    find_rows();
    inside_ = true;
    const bool last = layer_ + 1 == layers_;
    wanted_ = last || request_.outputs == 0 ? evidence_kind::none : ask_schedule();
    plan_ = {.layer = layer_, .active = active_, .rows = rows_, .sources = sources_, .finish = last ? request_.outputs : rows_.size()};
    return plan_;
  }

  void leave(const evidence& shown) noexcept {
    if (!inside_ || out_of_order_) {
      out_of_order_ = true;
      return;
    }
    inside_ = false;
    ++layer_;
    for (const position t : rows_) table_.advance(t, layer_);
    margin_ = std::numeric_limits<float>::quiet_NaN();
    if (layer_ == layers_) return;
    if (request_.outputs > 0)
      prune(shown);
    else if (layer_ < depth_)
      drop_stuck();
    else
      wait();
    wanted_ = evidence_kind::none;
  }

  bool can_finish() const noexcept { return in_step_ && !inside_ && !out_of_order_ && layer_ == depth_; }

  /// Reports the fault of a step whose layers are all left.
  void check_finish() const {
    if (can_finish() && fault_) report_error(error_of(*fault_));
  }

  void finish() {
    check_finish();
    if (!can_finish()) {  // finished too early it is not finished
      out_of_order_ = true;
      return;
    }
    spills_are_saved();
    while (settled_ < known() && table_.settled(static_cast<position>(settled_), layers_)) ++settled_;
    in_step_ = false;
    ++statistics_.steps;
  }

  std::span<const spill> spills() const noexcept { return spills_; }
  float margin() const noexcept { return margin_; }

  std::size_t pages(std::size_t size, std::span<std::uint32_t> out) const noexcept {
    std::size_t count = 0;
    if (!inside_ || size == 0) return 0;
    std::uint32_t last = 0;
    for (const position t : active_) {
      const auto page = static_cast<std::uint32_t>(t / size);
      if (count > 0 && page == last) continue;
      if (count < out.size()) out[count] = page;
      ++count;
      last = page;
    }
    return count;
  }

  /// All known tokens take part in layer 0, less those dropped for good, and less those that a method of positions drops before it. Where
  /// the last step dropped no others, only the new ones are missing in the list.
  void list_all() noexcept {
    if (listed_ == 0) active_.clear();
    for (auto t = static_cast<position>(listed_); t < known(); ++t)
      if (!table_.gone(t)) active_.push_back(t);
    listed_ = known();
    if (request_.outputs > 0)
      prune({});
    else
      drop_stuck();
  }

  /// The active tokens whose next layer this is. None is among the settled ones, with which the sequence begins.
  void find_rows() noexcept {
    rows_.swap(last_rows_);
    rows_.clear();
    sources_.clear();
    std::uint32_t carried = 0;
    for (auto at = std::ranges::lower_bound(active_, settled_); at != active_.end(); ++at) {
      const position t = *at;
      if (table_.frontier(t) != layer_) continue;
      rows_.push_back(t);
      if (layer_ == 0) {
        sources_.push_back({origin::embedding, t});
      } else if (table_.has_slot(t)) {
        sources_.push_back({table_.waiting(t) ? origin::waiting : origin::stored, table_.slot(t)});
        if (table_.stored(t)) ++statistics_.revived;
      } else {
        while (last_rows_[carried] != t) ++carried;
        sources_.push_back({origin::carried, carried});
      }
    }
    statistics_.rows += rows_.size();
    if (request_.phase == phase::prefill) statistics_.prefill_rows[layer_] += rows_.size();
  }

  /// A chunk ends: its rows wait for a step with a query.
  void wait() noexcept {
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      table_.wait(rows_[row]);
      spills_.push_back({.row = row, .slot = table_.slot(rows_[row]), .from = origin::carried, .to = origin::waiting});
    }
  }

  void spills_are_saved() noexcept {
    for (const spill& s : spills_)
      if (s.from == origin::waiting) table_.free_waiting(s.row);
    table_.free_refused();
    spills_.clear();
  }

  /// Carried rows that were to be saved are lost. Rows that were to leave their waiting slots, for the store or for good, go on waiting.
  void lose_unsaved() noexcept {
    auto moved = spills_.begin();
    const auto next_moved = [&] {
      return moved = std::find_if(moved, spills_.end(), [](const spill& s) { return s.from == origin::waiting; });
    };
    for (position t = 0; next_moved() != spills_.end(); ++t)  // ascending by token, as the spills are
      if (table_.stored(t) && table_.slot(t) == moved->slot) table_.wait_again(t, (moved++)->row);
    for (const spill& s : spills_)
      if (s.from == origin::carried) table_.lose(rows_[s.row]);
    table_.take_back_refusals();
    spills_.clear();
  }

  layer_id layers_;
  bool remembers_;            // the scorer asks for evidence at every layer, and for memory
  std::size_t limit_ = 0;     // tokens, by reserve; 0: none
  std::size_t capacity_ = 0;  // tokens
  frontier_table table_;
  statistics statistics_;
  std::vector<position> losses_;  // ascending
  std::vector<float> memory_;     // (known), of a scorer that remembers
  selection_scratch own_scratch_;
  selection_scratch* shared_scratch_;

  std::vector<position> active_;  // ascending
  std::size_t listed_ = 0;        // active_ holds every one of the first so many tokens that is not dropped for good; 0: it is made anew
  std::size_t settled_ = 0;       // the first so many tokens are settled
  bool queried_ = false;          // a step had outputs, so that the policy may have had its say

  // The step in progress.
  step_request request_{.tokens = 0};
  layer_id depth_ = 0;  // the layers of this step
  layer_id layer_ = 0;  // entered or to be entered; its number is also that of the layers done
  bool in_step_ = false;
  bool inside_ = false;  // a layer is entered and not yet left
  bool out_of_order_ = false;
  std::optional<step_fault> fault_;  // the first in this step
  evidence_kind wanted_ = evidence_kind::none;
  float margin_ = std::numeric_limits<float>::quiet_NaN();
  layer_plan plan_{};
  std::vector<position> rows_, last_rows_;  // of this layer and of the one before, ascending
  std::vector<row_source> sources_;         // (rows)
  std::vector<spill> spills_;
};

}  // namespace v0
}  // namespace lazyprune
