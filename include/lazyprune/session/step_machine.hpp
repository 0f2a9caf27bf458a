// SPDX-License-Identifier: MIT
// Checks the order of a session's calls and does the bookkeeping that does not depend on the policy. It finds the rows of each layer and
// the places of their inputs. It forgets the new tokens of an abandoned step, cuts off the end of a sequence, and counts rows. A session
// adds the policy (session/session.hpp).
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
#include <lazyprune/core/finite.hpp>
#include <lazyprune/core/plan.hpp>
#include <lazyprune/session/admission.hpp>
#include <lazyprune/session/engine_choice.hpp>
#include <lazyprune/session/frontier_table.hpp>
#include <lazyprune/session/selection.hpp>
#include <lazyprune/session/session_state.hpp>
#include <lazyprune/session/statistics.hpp>
#include <lazyprune/session/step_fault.hpp>

namespace lazyprune {
inline namespace v0 {

/// The input of a step.
struct step_request {
  std::size_t tokens;  // new tokens, at least 1, at the end of the sequence
  lazyprune::phase phase = lazyprune::phase::prefill;
  /// The last `outputs` of the new tokens are outputs: from none to all of them. Outputs are required at every layer, and the last layer
  /// computes them to the end. The last output is the query token. If all new tokens are outputs, none of them is pruned. A step without
  /// outputs is a chunk, and has no query. It ends before the first layer that could prune. Its rows wait there for a step with a query.
  std::size_t outputs = 1;
};

struct session_options {
  layer_id layers;                       // of the model
  std::size_t max_tokens = 0;            // reserved at once, and then the limit; 0: memory grows with the sequence
  selection_scratch* scratch = nullptr;  // shared by sessions of one thread; must outlive them; null: the session's own
};

template <class Session>
class step;

/// The part of a session that does not depend on its policy.
class step_machine {
 public:
  /// The bytes that a session reserves for each token, without the scratch. It reserves 4 more if the scorer asks for evidence at every
  /// layer.
  static constexpr std::size_t bytes_per_token =
      frontier_table::bytes_per_token + 4 * sizeof(position) + sizeof(row_source) + sizeof(spill);

  virtual ~step_machine() = default;

  layer_id layers() const noexcept { return layers_; }
  std::size_t known() const noexcept { return table_.known(); }
  const frontier_table& tokens() const noexcept { return table_; }
  const statistics& stats() const noexcept { return statistics_; }

  /// The number of layers that a chunk of that phase runs before its rows wait. The number does not depend on the chunk's length. It counts
  /// the layers before the first possible pruning. It is one less if the step with the query must compute all rows of the layer that gives
  /// the evidence. If nothing can be pruned, it is the number of all layers.
  /// If the scorer gathers windows, a chunk leaves its last tokens for a later step, see `evidence_window`.
  virtual layer_id chunk_layers(phase phase) const noexcept = 0;

  /// The tokens that left all later plans since the last `begin`, ascending. Their keys and values can be freed. Valid until the session is
  /// next changed. After `abandon` the list stays, but without the tokens that the step added. Read it then, too, because the next `begin`
  /// clears it.
  std::span<const position> losses() const noexcept { return losses_; }

  /// Throws the `error` that `begin` would throw.
  void check(const step_request& request) const {
    require_between_steps("begin");
    if (request.tokens == 0) report_error(error("session", "begin", "at least one new token", "none"));
    if (request.outputs > request.tokens)
      report_error(error("session", "begin", "at most " + std::to_string(request.tokens) + " outputs, the number of new tokens",
                         std::to_string(request.outputs)));
    require_room("begin", request.tokens);
  }

  /// Makes room for a sequence of `max_tokens` tokens and sets this limit. From then on nothing allocates. 0 makes no room and removes the
  /// limit. Call it between steps. Throws `error` if `max_tokens` is not 0 and less than the number of known tokens, or if it is 2^32 - 1
  /// or more.
  void reserve(std::size_t max_tokens) {
    require_between_steps("reserve");
    if ((max_tokens > 0 && max_tokens < known()) || max_tokens >= frontier_table::no_slot)
      report_error(error("session", "reserve", "0, or at least the " + std::to_string(known()) + " known tokens, and fewer than 2^32 - 1",
                         std::to_string(max_tokens)));
    grow(max_tokens);
    limit_ = max_tokens;
  }

  /// Makes room for a sequence of `tokens` tokens, but at most `limit()`. Steps up to that length allocate nothing. Does not change the
  /// limit. Call it between steps, because it moves what a plan's spans refer to.
  void make_room(std::size_t tokens) {
    require_between_steps("make_room");
    grow(std::min(tokens, limit()));
  }

  /// The largest number of tokens that the sequence can have: the reserved number, or 2^32 - 2 without a limit.
  std::size_t limit() const noexcept { return limit_ > 0 ? limit_ : frontier_table::no_slot - 1; }

  /// Forgets the sequence: its tokens, the statistics, and the memory of the scorer.
  void reset() {
    forget_from(0);
    std::ranges::fill(statistics_.prefill_rows, 0);
    std::ranges::fill(statistics_.prefill_dense_rows, 0);
    statistics_ = {.prefill_rows = std::move(statistics_.prefill_rows), .prefill_dense_rows = std::move(statistics_.prefill_dense_rows)};
  }

  /// Forgets all tokens from position `tokens` <= known on. Call it between steps. Effects of the forgotten steps on the remaining tokens
  /// stay: grown frontiers, losses, scores, and the memory of the scorer. If the scorer gathers windows, the last tokens that a chunk would
  /// leave for a later step (`evidence_window`) go back to frontier 0. `truncate(0)` is `reset`, but keeps the statistics. Throws `error`
  /// if `tokens` is greater than the number of known tokens.
  void truncate(std::size_t tokens) {
    require_between_steps("truncate");
    if (tokens > known())
      report_error(error("session", "truncate", "at most the " + std::to_string(known()) + " known tokens", std::to_string(tokens)));
    forget_from(tokens);
  }

  /// Adds `tokens` tokens whose keys and values already exist at all layers; 0 changes nothing. Call it between steps. Statistics do not
  /// count them. Throws `error` if there is no room for them.
  void adopt(std::size_t tokens) {
    require_between_steps("adopt");
    require_room("adopt", tokens);
    if (tokens == 0) return;
    grow_by(tokens);
    append(tokens, layers_);
    queried_to_ = known();
  }

  /// Continues the sequence of `other` under this session's own policy. Call it between steps of both; this session must have no tokens
  /// yet. `other` must have run only chunks. Chunks do not depend on the policy, so one partly read document can be pruned under many
  /// policies. The chunks of `other` may run at most as many layers as this policy's chunks (`chunk_layers`). Throws `error` otherwise.
  /// Copies the statistics and slots of `other`. Its waiting rows go on waiting, in a copy of the engine's memory.
  /// If chunks under this policy would have left the last tokens for a later step, these tokens have frontier 0, as after `truncate`.
  void take_over(const step_machine& other) {
    require_between_steps("take_over");
    other.require_between_steps("take_over");
    const auto refuse = [](const char* expected, const std::string& found) {
      report_error(error("session", "take_over", expected, found));
    };
    if (known() > 0) refuse("a session without tokens", std::to_string(known()));
    if (layers_ != other.layers_)
      refuse("a session with as many layers", std::to_string(other.layers_) + " and not " + std::to_string(layers_));
    require_room("take_over", other.known());
    const layer_id most = chunk_layers(phase::prefill);
    if (other.queried_) refuse("a session that has only read chunks", "one that ran a step with a query");
    const std::size_t end = chunk_end(other.queried_to_, other.known());
    for (position t = 0; t < end; ++t)
      if (other.table_.frontier(t) > most || other.table_.lost(t))
        refuse("tokens that went no deeper than this policy's chunks", "token " + std::to_string(t) + " after layer " +
                                                                           std::to_string(other.table_.frontier(t)) + ", and not " +
                                                                           std::to_string(most));
    grow_by(other.known());
    table_ = other.table_;
    table_.reserve(capacity_);  // the other session may have had more slots than this one reserves for tokens
    statistics_ = other.statistics_;
    settled_ = other.settled_;
    queried_to_ = other.queried_to_;
    if (has_memory_) memory_.assign(known(), 0.0f);
    restart_from(end);
  }

  /// Returns whether a step had outputs, so that the policy may have pruned. Otherwise the session has read only chunks.
  bool queried() const noexcept { return queried_; }

  /// Returns the state of this session's sequence. Call it between steps. The state leaves out changes of the policy's own parts.
  session_state state() const {
    require_between_steps("state");
    session_state saved{.layers = layers_, .memory = memory_, .queried_to = queried_to_, .queried = queried_, .stats = statistics_};
    saved.tokens.reserve(known());
    for (position t = 0; t < known(); ++t) saved.tokens.push_back(table_.state(t));
    return saved;
  }

  /// Continues the sequence of a saved state. This session must have no tokens, and the policy of the saved session. If no step of the
  /// saved session had outputs, this session may have another policy, such as the dense one. Other sessions can then `take_over` its
  /// sequence. If the state contradicts itself or does not fit this session, throws `error` and changes nothing.
  void restore(const session_state& saved) {
    require_between_steps("restore");
    check_state(saved);
    require_room("restore", saved.tokens.size());
    grow_by(saved.tokens.size());
    statistics_ = saved.stats;
    table_.clear();
    for (const token_state& token : saved.tokens) table_.append(token);
    if (has_memory_) {
      memory_ = saved.memory;
      memory_.resize(known(), 0.0f);
    }
    active_.clear();
    losses_.clear();
    listed_ = settled_ = 0;
    queried_to_ = saved.queried_to;
    queried_ = saved.queried;
    find_settled();
  }

  /// The number W of queries whose attention the scorer gathers at every layer (windows or probes); 0 for other scorers. Let `a` be the
  /// number of tokens known after the last step with outputs, and k the number known now. The evidence rows of a step are the tokens from
  /// max(a, k - W) on. They are required. An evidence row that an abandoned step dropped for good is in no plan. A chunk computes only
  /// tokens before max(a, k - W + 1), perhaps none. A later step with outputs then computes all of its evidence rows at every layer,
  /// however the prompt was cut.
  virtual std::size_t evidence_window() const noexcept = 0;

  /// Returns whether the scorer uses a number for each token from step to step. abandon() and truncate() do not undo what a step changed in
  /// them.
  virtual bool remembers() const noexcept = 0;

  /// Gives up the step in progress and forgets its new tokens. An older token is lost if its hidden state was only carried from one layer
  /// to the next. Spills count as saved once the next layer is entered. Frontiers that have grown do not go back. If a layer was entered
  /// and not left, the engine must remove the keys and values that it wrote for that layer.
  void abandon() {
    if (in_step_) {
      const auto older = static_cast<position>(known() - request_.tokens);
      lose_unsaved();
      for (position t = 0; t < older; ++t)
        if (table_.frontier(t) > 0 && !table_.settled(t, layers_) && !table_.has_slot(t)) table_.lose(t);
      count_dense_rows(std::size_t{0} - request_.tokens);  // subtracts them, modulo 2^64
      forget_from(older);
    } else {
      end_step();
    }
  }

 protected:
  step_machine(const session_options& options, bool has_memory)
      : layers_(options.layers), has_memory_(has_memory), shared_scratch_(options.scratch) {
    if (layers_ == 0) report_error(error("session", "layers", "at least 1", "0"));
    statistics_.prefill_rows.assign(layers_, 0);
    statistics_.prefill_dense_rows.assign(layers_, 0);
    if (options.max_tokens > 0) reserve(options.max_tokens);
  }

  /// Call it between steps. The copy has the same limit and reserves the same room.
  step_machine(const step_machine& other) : step_machine({.layers = other.layers_, .scratch = other.shared_scratch_}, other.has_memory_) {
    other.require_between_steps("copy");
    grow(other.capacity_);
    limit_ = other.limit_;
    table_ = other.table_;
    table_.reserve(capacity_);  // the other session may have had more slots than this one reserves for tokens
    statistics_ = other.statistics_;
    losses_ = other.losses_;
    memory_ = other.memory_;
    active_ = other.active_;
    listed_ = other.listed_;
    settled_ = other.settled_;
    queried_to_ = other.queried_to_;
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

  // The decisions of the policy. `prune` chooses the tokens that go on to layer `layers_done()`. A step with a query calls `prune` after
  // each layer but the last. It also calls `prune` once before layer 0, without evidence.
  virtual evidence_kind ask_schedule() noexcept = 0;  // inside a layer: the evidence that the layer has to yield
  virtual void prune(const evidence& shown) noexcept = 0;
  virtual void prune(const chosen_tokens& chosen) noexcept = 0;
  /// Inside a layer: the choice that the engine may make after it. Writes the standing of each active token to `out` if `out` has room for
  /// all of them. nullopt: the engine must show evidence, or nothing is decided.
  virtual std::optional<selection_quota> open_choice(std::span<candidacy> out) noexcept = 0;
  virtual std::optional<choice_fault> fault_of_choice(const chosen_tokens& chosen) noexcept = 0;
  virtual std::size_t later_counts(std::span<layer_counts> out) noexcept = 0;
  virtual std::size_t most_queries() const noexcept = 0;
  virtual std::span<const head_probe> probes_read(layer_id layer) const noexcept = 0;
  /// `mean` or `max` if the scorer reads only the mean or only the maximum over the heads; nullopt if it reads each head.
  virtual std::optional<head_reduction> heads_read() const noexcept = 0;
  virtual void forget_policy() = 0;
  virtual std::unique_ptr<step_machine> clone() const = 0;

  layer_id layers_done() const noexcept { return layer_; }
  bool inside() const noexcept { return inside_ && !out_of_order_; }
  layer_context context(layer_id done) const noexcept {
    return {.done = done, .layers = layers_, .active = active_.size(), .known = known(), .step = request_.phase};
  }
  std::span<const position> active() const noexcept { return active_; }
  std::size_t rows() const noexcept { return rows_.size(); }
  std::size_t window() const noexcept {
    if (evidence_window() == 0) return std::min(most_queries(), rows());
    std::size_t count = 0;
    for (auto t = static_cast<position>(first_evidence_row()); t < known(); ++t) count += !table_.dropped_for_good(t);
    return count;
  }
  evidence_kind wanted() const noexcept { return wanted_; }
  std::span<const head_probe> probes_wanted() const noexcept {
    return wanted_ == evidence_kind::probes ? probes_read(layer_) : std::span<const head_probe>{};
  }
  selection_scratch& scratch() noexcept { return shared_scratch_ ? *shared_scratch_ : own_scratch_; }
  std::span<float> memory() noexcept { return memory_; }
  /// Notes a fault after `done` layers, if it is the first one of the step.
  void note_fault(layer_id done, const decltype(step_fault::what)& what) noexcept {
    if (!fault_) fault_ = {done, what};
  }

  /// Returns whether the token cannot enter the next layer, because its hidden state is gone.
  bool stuck(position t) const noexcept { return stuck(t, layer_); }
  bool stuck(position t, layer_id done) const noexcept { return table_.frontier(t) == done && table_.lost(t); }

  void drop_stuck() noexcept {
    if (table_.lost_count() > 0 && std::erase_if(active_, [&](position t) { return stuck(t); }) > 0) listed_ = 0;
  }

  /// The selector chooses the tokens that go on, by the scores in the scratch (active) and the schedule's `quota`. The store decides which
  /// of the others can come back. If the selector or the store writes a wrong list, notes the fault. No token is lost because of the fault.
  template <class Selector, class Store>
  void select_and_admit(const Selector& selector, const Store& store, std::size_t quota) noexcept {
    const std::size_t before = active_.size();
    const selection_outcome chosen = select(selector, {quota, required_from()}, active_, scratch(), [&](position t) { return !stuck(t); });
    margin_ = chosen.margin;
    if (chosen.fault) note_fault(layer_, wrong_indices{"selector", *chosen.fault});
    admit_dropped(store, before);
  }

  /// Lists the candidates of the selection after `done` layers in the scratch (eligible, eligible_scores), as `select` would: required
  /// tokens have the score +inf, the others 0.
  candidates list_candidates(layer_id done, std::size_t quota) noexcept {
    std::vector<position>& tokens = scratch().eligible;
    tokens.clear();
    for (const position t : active_)
      if (!stuck(t, done)) tokens.push_back(t);
    const std::size_t n = tokens.size();
    const auto required = static_cast<std::size_t>(std::ranges::lower_bound(tokens, required_from()) - tokens.begin());
    scratch().eligible_scores.assign(required, 0.0f);
    scratch().eligible_scores.resize(n, std::numeric_limits<float>::infinity());
    return {.scores = scratch().eligible_scores,
            .positions = tokens,
            .keep = std::max(std::min(std::clamp<std::size_t>(quota, 1, active_.size()), n), n - required)};
  }

  /// Returns whether every active token that is kept will be a row of the layer after the entered one, and none is in the aux store.
  bool all_will_be_rows() const noexcept {
    return std::ranges::all_of(active_,
                               [&](position t) { return stuck(t, layer_ + 1) || (table_.frontier(t) <= layer_ + 1 && !table_.stored(t)); });
  }
  std::size_t outputs() const noexcept { return request_.outputs; }

  /// The engine's choice goes on, in the place of the selector's. The session has checked it.
  template <class Selector, class Store>
  void admit_choice(const chosen_tokens& chosen, const Selector& selector, const Store& store) noexcept {
    scratch().scores.assign(active_.size(), 0.0f);
    std::ranges::copy(chosen.scores, scratch().scores.begin());
    select_and_admit(chosen_by_engine<Selector>{chosen.indices, active_, &selector}, store, chosen.indices.size());
    if (chosen.scores.empty()) margin_ = std::numeric_limits<float>::quiet_NaN();
  }

  /// The tokens that have keys and values in the next layer go on, and so do the required ones (`all_with_keys`). The store decides which
  /// of the others can come back. A dropped token that is not stored yet is offered with the score 0.
  template <class Store>
  void keep_those_with_keys(const Store& store) noexcept {
    const std::size_t before = active_.size();
    const position required = required_from();
    std::vector<position>& dropped = scratch().eligible;
    dropped.clear();
    scratch().eligible_scores.clear();
    std::erase_if(active_, [&](position t) {
      if (stuck(t)) return true;
      if (table_.frontier(t) > layer_ || t >= required) return false;
      dropped.push_back(t);
      scratch().eligible_scores.push_back(table_.stored(t) ? table_.score(t) : 0.0f);
      return true;
    });
    admit_dropped(store, before);
  }

 private:
  /// A selector that keeps what the engine chose in the place of `selector`. `indices` are those of `active`.
  template <class Selector>
  struct chosen_by_engine {
    std::span<const std::uint32_t> indices;
    std::span<const position> active;
    const Selector* selector;

    std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
      (void)count_of(*selector, c);  // marks the tokens that `selector` requires: their scores do not count for the margin
      std::size_t count = 0;
      for (std::uint32_t i = 0; i < c.positions.size() && count < indices.size(); ++i)
        if (c.positions[i] == active[indices[count]]) kept[count++] = i;
      return count;
    }
  };

  /// The first of the tokens that the step requires at the next layer.
  position required_from() const noexcept { return static_cast<position>(std::min(known() - request_.outputs, first_evidence_row())); }

  /// The store decides which of the dropped tokens in the scratch can come back. `before`: how many tokens were active.
  template <class Store>
  void admit_dropped(const Store& store, std::size_t before) noexcept {
    const std::size_t losses = losses_.size();
    const std::optional<index_fault> refused = admission{layer_, active_, rows_, table_, scratch()}.admit(store, spills_, losses_);
    if (refused) note_fault(layer_, wrong_indices{"store", *refused});
    if (!std::ranges::is_sorted(losses_)) std::ranges::sort(losses_);
    const std::size_t gone = drops_for_good(store) ? losses_.size() - losses : 0;
    if (active_.size() + gone < before) listed_ = 0;
  }

  template <class>
  friend class step;
  friend class any_session;
  using origin = row_source::origin;

  void require_between_steps(const char* what) const {
    if (in_step_ && layer_ < depth_)
      report_error(error("session", what,
                         "leave() of all " + std::to_string(depth_) + " layers and finish(), or abandon() or reset(), before this call",
                         "leave() of " + std::to_string(layer_), error_code::wrong_order));
    if (in_step_ || out_of_order_)
      report_error(
          error("session", what, "finish(), abandon() or reset() before this call", "an unfinished step", error_code::wrong_order));
  }

  void require_room(const char* what, std::size_t tokens) const {
    const std::size_t room = limit() - known();
    if (tokens > room)
      report_error(error("session", what, "at most " + std::to_string(room) + " more tokens (reserved)", std::to_string(tokens),
                         error_code::no_room));
  }

  void check_state(const session_state& saved) const {
    const auto refuse = [](const std::string& place, const std::string& expected, const std::string& found) {
      report_error(error("session state", place, expected, found));
    };
    const std::size_t count = saved.tokens.size();
    if (known() > 0) refuse("session", "one without tokens", "one with " + std::to_string(known()));
    if (saved.layers != layers_) refuse("layers", std::to_string(layers_), std::to_string(saved.layers));
    if (saved.stats.prefill_rows.size() != layers_ || saved.stats.prefill_dense_rows.size() != layers_)
      refuse("statistics", "a number for each layer", std::to_string(saved.stats.prefill_rows.size()));
    if (!saved.memory.empty() && saved.memory.size() != count)
      refuse("memory", "no numbers, or one for each of " + std::to_string(count) + " tokens", std::to_string(saved.memory.size()));
    if (saved.queried_to > count) refuse("queried tokens", "at most " + std::to_string(count), std::to_string(saved.queried_to));
    if (saved.queried_to > 0 && !saved.queried && saved.tokens[saved.queried_to - 1].frontier < layers_)
      refuse("queried tokens", "adopted ones, with keys at all layers", "token " + std::to_string(saved.queried_to - 1) + " without them");
    const std::size_t chunks_end = chunk_end(saved.queried_to, count);
    for (position t = 0; t < count; ++t) {
      const token_state& token = saved.tokens[t];
      const bool between = token.frontier > 0 && token.frontier < layers_,
                 has_row = token.hidden == hidden_state::stored || token.hidden == hidden_state::waiting;
      if (token.frontier > layers_ || (has_row && !between) || (between && token.hidden == hidden_state::none && !token.dropped_for_good) ||
          (has_row && token.dropped_for_good))
        refuse("token " + std::to_string(t), "a state that a step can leave", "frontier " + std::to_string(token.frontier));
      if (is_nan(token.score) || token.score == std::numeric_limits<float>::infinity())
        refuse("token " + std::to_string(t), "a score below infinity", std::to_string(token.score));
      if (t >= chunks_end && !token.dropped_for_good && (token.frontier > 0 || token.hidden != hidden_state::none))
        refuse("token " + std::to_string(t), "no keys yet, because the next step gathers its window",
               "frontier " + std::to_string(token.frontier));
    }
  }

  /// Counts the settled tokens at the beginning of the sequence.
  void find_settled() noexcept {
    while (settled_ < known() && table_.settled(static_cast<position>(settled_), layers_)) ++settled_;
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
    if (has_memory_) memory_.reserve(tokens);
    capacity_ = tokens;  // last, so that an allocation that throws changes nothing
  }

  /// The first evidence row of the step; known() if the scorer gathers no windows.
  std::size_t first_evidence_row() const noexcept {
    const std::size_t queries = evidence_window();
    return queries == 0 ? known() : std::max(queried_to_, known() - std::min(known(), queries));
  }

  /// The first position that a chunk leaves for a later step when `tokens` tokens are known and steps with outputs have read `queried_to`.
  std::size_t chunk_end(std::size_t queried_to, std::size_t tokens) const noexcept {
    const std::size_t queries = evidence_window();
    return queries == 0 ? tokens : std::max(queried_to, tokens - std::min(tokens, queries - 1));
  }

  /// Sends the tokens from `begin` on back to frontier 0. Tokens that no later plan contains stay as they are.
  void restart_from(std::size_t begin) noexcept {
    if (begin == known()) return;
    for (auto t = static_cast<position>(begin); t < known(); ++t) {
      if (table_.frontier(t) == 0 || table_.dropped_for_good(t)) continue;
      table_.restart(t);
      if (has_memory_) memory_[t] = 0.0f;
    }
    active_.erase(std::ranges::lower_bound(active_, begin), active_.end());
    listed_ = std::min(listed_, begin);
    settled_ = std::min(settled_, begin);
  }

  void append(std::size_t tokens, layer_id frontier) noexcept {
    table_.append(tokens, frontier);
    if (has_memory_) memory_.resize(known(), 0.0f);
  }

  void forget_from(std::size_t tokens) {
    if (tokens == 0)
      table_.clear();
    else
      table_.truncate(tokens);
    if (has_memory_) memory_.resize(tokens);
    const auto forgotten = [&](std::vector<position>& list) { return std::ranges::lower_bound(list, tokens); };
    losses_.erase(forgotten(losses_), losses_.end());
    active_.erase(forgotten(active_), active_.end());
    listed_ = std::min(listed_, tokens);
    settled_ = std::min(settled_, tokens);
    end_step();
    queried_to_ = std::min(queried_to_, tokens);
    while (!queried_ && queried_to_ > 0 && table_.frontier(static_cast<position>(queried_to_ - 1)) < layers_)
      --queried_to_;  // the adopted tokens that followed this token are forgotten
    restart_from(chunk_end(queried_to_, tokens));
    if (tokens > 0) return;
    queried_ = false;
    forget_policy();  // last, because copying a user's policy may throw
  }

  /// Clears the visible results of the last step, so that the next step may begin.
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
      plan_ = {.layer = layer, .active = {}, .rows = {}, .sources = {}, .output_rows = 0};
      return plan_;
    }
    spills_are_saved();
    if (layer_ == 0) list_all();
    find_rows();
    inside_ = true;
    const bool last = layer_ + 1 == layers_;
    wanted_ = last || request_.outputs == 0 ? evidence_kind::none : ask_schedule();
    plan_ = {.layer = layer_, .active = active_, .rows = rows_, .sources = sources_, .output_rows = last ? request_.outputs : rows_.size()};
    return plan_;
  }

  /// `shown`: evidence, or the tokens that the engine chose.
  template <class Shown>
  void leave(const Shown& shown) noexcept {
    if (!inside_ || out_of_order_) {
      out_of_order_ = true;
      return;
    }
    inside_ = false;
    ++layer_;
    for (const position t : rows_) table_.advance(t, layer_);
    margin_ = std::numeric_limits<float>::quiet_NaN();
    if (layer_ == layers_) return refuse_choice(shown);
    if (request_.outputs > 0) {
      prune(shown);
    } else {
      refuse_choice(shown);
      layer_ < depth_ ? drop_stuck() : wait();
    }
    wanted_ = evidence_kind::none;
  }

  void refuse_choice(const evidence&) noexcept {}
  void refuse_choice(const chosen_tokens&) noexcept { note_fault(layer_, wrong_choice{choice_not_open{}}); }

  std::optional<selection_quota> quota(std::span<candidacy> out) noexcept { return inside() ? open_choice(out) : std::nullopt; }
  std::size_t counts(std::span<layer_counts> out) noexcept { return inside() ? later_counts(out) : 0; }
  void check_choice(const chosen_tokens& chosen) {
    const std::optional<choice_fault> fault = inside() ? fault_of_choice(chosen) : choice_fault(choice_not_open{});
    if (fault) report_error(error_of(*fault, layer_ + 1, "leave"));
  }

  bool can_finish() const noexcept { return in_step_ && !inside_ && !out_of_order_ && layer_ == depth_; }

  /// Throws the fault of a step after its last layer.
  void check_finish() const {
    if (can_finish() && fault_) report_error(error_of(*fault_));
  }

  void finish() {
    check_finish();
    if (!can_finish()) {  // too early: the step stays unfinished
      out_of_order_ = true;
      return;
    }
    spills_are_saved();
    find_settled();
    in_step_ = false;
    if (request_.outputs > 0) queried_to_ = known();
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

  /// Lists the active tokens of layer 0. These are all known tokens, except those dropped for good and those that a scorer of positions
  /// drops before layer 0. If the last step dropped no other tokens, the list lacks only the new tokens.
  void list_all() noexcept {
    if (listed_ == 0) active_.clear();
    const std::size_t end = request_.outputs > 0 ? known() : chunk_end(queried_to_, known());
    for (auto t = static_cast<position>(listed_); t < end; ++t)
      if (!table_.dropped_for_good(t)) active_.push_back(t);
    listed_ = end;
    if (request_.outputs > 0)
      prune(evidence{});
    else
      drop_stuck();
  }

  /// Finds the rows of this layer: the active tokens whose frontier is this layer. The first `settled_` tokens of the sequence have no
  /// rows.
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

  /// Ends a chunk. Its rows wait for a step with a query.
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

  /// Loses the carried rows that were to be saved. Waiting rows that were about to leave their slots stay in them and go on waiting.
  void lose_unsaved() noexcept {
    auto moved = spills_.begin();
    const auto next_moved = [&] {
      return moved = std::find_if(moved, spills_.end(), [](const spill& s) { return s.from == origin::waiting; });
    };
    for (position t = 0; next_moved() != spills_.end(); ++t)  // the spills are in the order of the tokens
      if (table_.stored(t) && table_.slot(t) == moved->slot) table_.wait_again(t, (moved++)->row);
    for (const spill& s : spills_)
      if (s.from == origin::carried) table_.lose(rows_[s.row]);
    table_.take_back_refusals();
    spills_.clear();
  }

  layer_id layers_;
  bool has_memory_;           // the scorer asks for evidence at every layer and for memory
  std::size_t limit_ = 0;     // in tokens, set by reserve; 0: no limit
  std::size_t capacity_ = 0;  // tokens
  frontier_table table_;
  statistics statistics_;
  std::vector<position> losses_;  // ascending
  std::vector<float> memory_;     // (known), if the scorer asks for memory
  selection_scratch own_scratch_;
  selection_scratch* shared_scratch_;

  std::vector<position> active_;  // ascending
  std::size_t listed_ = 0;        // active_ has all of the first `listed_` tokens that are not dropped for good; 0: rebuild it
  std::size_t settled_ = 0;       // the first `settled_` tokens are settled
  std::size_t queried_to_ = 0;    // the number of tokens known after the last step with outputs, or after a later `adopt`
  bool queried_ = false;          // a step had outputs, so that the policy may have pruned

  // The step in progress.
  step_request request_{.tokens = 0};
  layer_id depth_ = 0;  // the number of layers in this step
  layer_id layer_ = 0;  // the layer entered, or to be entered next; also the number of layers done
  bool in_step_ = false;
  bool inside_ = false;  // a layer is entered, and not yet left
  bool out_of_order_ = false;
  std::optional<step_fault> fault_;  // the first fault in this step
  evidence_kind wanted_ = evidence_kind::none;
  float margin_ = std::numeric_limits<float>::quiet_NaN();
  layer_plan plan_{};
  std::vector<position> rows_, last_rows_;  // the rows of this layer and of the layer before, ascending
  std::vector<row_source> sources_;         // (rows)
  std::vector<spill> spills_;
};

}  // namespace v0
}  // namespace lazyprune
