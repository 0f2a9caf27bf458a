// SPDX-License-Identifier: MIT
// The forward pass of all model families (RMSNorm, RoPE, grouped-query attention, gated feed-forward), written once for all backends. A
// pruning session drives it: each layer computes the planned rows and attends to the active tokens. The dense model runs the same code with
// a policy that keeps every token.
#pragma once

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lazyprune/model/observer.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/model/sequence.hpp>
#include <lazyprune/model/workspace.hpp>

namespace lazyprune {
inline namespace v0 {

/// One sequence's step in a batch, with the fields of `step_request`. The sequence and the tokens must stay valid until the step ends.
template <tensor_backend Backend>
struct sequence_step {
  std::reference_wrapper<sequence<Backend>> seq;
  std::span<const token_id> tokens;  // new tokens, at least 1
  lazyprune::phase phase = lazyprune::phase::prefill;
  std::size_t outputs = 1;  // 0..tokens: how many of the last tokens are outputs, whose logits can be read; 0: a chunk
  step_observer* observer = nullptr;
};

/// Throws `error` if a token id is outside the vocabulary.
inline void check_ids(const model_config& config, std::span<const token_id> tokens) {
  for (const token_id id : tokens)
    if (id >= config.vocabulary)
      throw error("tokens", "token id", "below the vocabulary's " + std::to_string(config.vocabulary), std::to_string(id));
}

/// Throws the `error` that `forward` would throw for this step alone, before it changes anything.
template <tensor_backend Backend>
void check_step(const workspace<Backend>& work, const sequence_step<Backend>& step) {
  const model_config& config = work.model().config;
  const sequence<Backend>& seq = step.seq;
  if (&seq.model() != &work.model()) throw error("sequence", "model", "the workspace's model", "another model");
  check_ids(config, step.tokens);
  const std::size_t known = seq.known() + step.tokens.size();
  if (known > config.max_positions)
    throw error("tokens", "length", "at most the model's " + std::to_string(config.max_positions) + " positions", std::to_string(known),
                error_code::no_room);
  seq.session().check({step.tokens.size(), step.phase, step.outputs});
}

/// The steps of several sequences in progress. A transformer takes the rows that their sessions plan through the layers of the model, as
/// one batch. `forward` and `read_logits` construct a transformer for each call.
template <tensor_backend Backend>
class transformer {
 public:
  using scalar = typename Backend::scalar;
  using batch = std::span<const sequence_step<Backend>>;

  explicit transformer(workspace<Backend>& work)
      : config_(work.model().config), weights_(work.model().weights), backend_(work.backend()), work_(work) {}

  /// Runs all layers of the steps. Returns false if an observer stopped them. See `start` and `finish`.
  bool run(batch steps, bool read_logits_of_all) {
    start(steps);
    may_queue_ahead_ = steps.size() == 1;
    in_one_team(backend_, [&] {
      while (next_layer()) {
      }
      finish(steps, read_logits_of_all);
    });
    return !stopped_;
  }

  /// Begins the steps. The caller then calls `next_layer` until it returns false, and then `finish`. If one of these functions throws, all
  /// steps are abandoned. But if an observer throws in `step_ends`, the steps are already done.
  void start(batch steps) {
    work_.outputs_ = 0;
    check(steps);
    for (const sequence_step<Backend>& s : steps) {  // if this throws, the sequences are unchanged
      sequence<Backend>& seq = s.seq;
      seq.grow_by(s.tokens.size());
      const std::size_t expected = seq.known() == 0 ? std::max(seq.expected_, s.tokens.size()) : seq.expected_;
      work_.reserve(rope_kind_for(config_, expected), seq.known() + s.tokens.size());
    }
    items_.reserve(steps.size());
    or_abandon([&] { begin(steps); });
  }

  /// Runs the next layer, unless an observer stops the steps before it. Returns whether there is another layer to run. A chunk leaves the
  /// batch after its last layer.
  bool next_layer() {
    return or_abandon([&] {
      stopped_ = std::ranges::any_of(items_, [](const batch_item& p) { return p.observer && p.observer->stops(); });
      running_.clear();
      for (batch_item& p : items_)
        if (!stopped_ && layer_ < p.step.layers()) running_.push_back(&p);
      if (running_.empty()) return false;
      run_layer(layer_++);
      return std::ranges::any_of(running_, [&](const batch_item* p) { return layer_ < p->step.layers(); });
    });
  }

  /// Returns whether an observer has stopped the steps.
  bool stopped() const { return stopped_; }

  /// The number of rows of the layer that ran last.
  std::size_t rows_of_layer() const { return rows_; }

  /// Ends the steps after their last layer. Abandons them if an observer has stopped them. The logits after the last token of a step with
  /// outputs are read if `read_logits_of_all` is true or the step's observer wants logits. The logits that were read last stay in the
  /// workspace.
  void finish(batch steps, bool read_logits_of_all) {
    if (stopped_) return abandon();
    work_.outputs_ = 0;  // other steps may have used the workspace since `start`
    or_abandon([&] {
      for (const sequence_step<Backend>& s : steps) {
        work_.outputs_ += s.outputs;
        if (s.outputs > 0 && (read_logits_of_all || (s.observer && s.observer->wants_logits()))) read_last(s.observer);
      }
      for (const batch_item& p : items_) p.step.check_finish();  // so that all steps finish, or none
      for (batch_item& p : items_) p.step.finish();
    });
    for (const batch_item& p : items_) p.seq->kv_.forget(p.seq->session_.losses());
    for (const sequence_step<Backend>& s : steps)
      if (s.observer) s.observer->step_ends(s.seq.get().session());
  }

  /// Abandons all steps, even if abandoning one of them throws. Then throws the last such exception.
  void abandon() {
    work_.outputs_ = 0;
    std::exception_ptr thrown;
    for (const batch_item& p : items_) {
      try {
        p.seq->expected_ = p.expected_before;
        p.seq->abandon();
      } catch (...) {
        thrown = std::current_exception();
      }
    }
    if (thrown) std::rethrow_exception(thrown);
  }

  /// Exchanges the rows that the workspace carries from layer to layer for `others`. So other steps can use the workspace between layers.
  void exchange_rows(typename Backend::buffer& others) { std::swap(work_.x_, others); }

  std::span<const scalar> logits() const { return work_.logits_; }  // the logits that were read last

  /// Returns the logits of `count` outputs from output `first` on, in the order of the steps: (count, vocabulary).
  std::span<const scalar> read_logits(std::size_t first, std::size_t count) {
    if (first > work_.outputs_ || count > work_.outputs_ - first)
      throw error("workspace", "read_logits", "a range within the " + std::to_string(work_.outputs_) + " outputs of the last step",
                  std::to_string(first) + " to " + std::to_string(first + count), error_code::wrong_order);
    work_.logits_.resize(count * config_.vocabulary);
    const rows x = work_.x_.view().slice(first, count), logits = room(work_.logits_rows_, count);
    const matrix& head = work_.model().head();
    backend_.multiply(normed(x, weights_.norm, head), head, nullptr, logits);
    backend_.read(logits, work_.logits_.data());
    if (const auto cap = static_cast<scalar>(config_.logit_soft_cap); cap > 0)
      for (scalar& logit : work_.logits_) logit = cap * std::tanh(logit / cap);
    return work_.logits_;
  }

 private:
  using matrix = typename Backend::matrix;
  using operand = typename Backend::operand;
  using parameters = typename Backend::parameters;
  using rows = rows_view<scalar>;
  using origin = row_source::origin;
  static constexpr std::size_t block_rows = Backend::block_rows;

  /// One sequence in the batch.
  struct batch_item {
    sequence<Backend>* seq;
    step_observer* observer;
    lazyprune::step<any_session> step;
    std::size_t expected_before;                 // the sequence's expected length before this step
    layer_plan plan{};                           // of the current layer
    std::size_t first = 0;                       // its first row in work_.x_: of the whole plan, or of the outputs after move_to_front
    std::size_t first_before = 0;                // `first` of the layer before
    std::size_t skipped = 0;                     // rows at the front of the plan that move_to_front left out
    std::size_t queries = 0;                     // number of last rows whose probabilities the scorer reads
    std::optional<head_reduction> over_heads{};  // how the backend reduces the heads, if the scorer reads only the reduced row
    std::span<const head_probe> probes{};        // the heads and reductions that the scorer reads, if it reads no others
    std::size_t probabilities = 0;               // where the probabilities begin in work_.probabilities_

    std::size_t count() const { return plan.rows.size() - skipped; }
    std::size_t end() const { return first + count(); }
  };

  /// Calls work(), and tells the observer when it begins and ends. If work() throws, the observer is not told of the end. If the observer
  /// throws, the step fails.
  template <class Work>
  static void during(step_observer* observer, step_section section, Work&& work) {
    if (observer) observer->section_begins(section);
    work();
    if (observer) observer->section_ends(section);
  }

  static const parameters* get(const std::optional<parameters>& p) { return p ? &*p : nullptr; }

  static rows room(typename Backend::buffer& buffer, std::size_t n) {
    buffer.reserve(n);
    return buffer.view().slice(0, n);
  }

  void check(batch steps) const {
    for (const sequence_step<Backend>& s : steps) {
      check_step(work_, s);
      const sequence<Backend>& seq = s.seq;
      if (std::ranges::count(steps, &seq, [](const auto& other) { return &other.seq.get(); }) > 1)
        throw error("sequence", "batch", "each sequence once", "a sequence of " + std::to_string(seq.known()) + " tokens twice");
    }
  }

  void begin(batch steps) {
    for (const sequence_step<Backend>& s : steps) {
      sequence<Backend>& seq = s.seq;
      items_.push_back({&seq, s.observer, seq.session_.begin({s.tokens.size(), s.phase, s.outputs}), seq.expected_});
      seq.expect(s.tokens.size());
      seq.tokens_.insert(seq.tokens_.end(), s.tokens.begin(), s.tokens.end());
    }
    for (const sequence_step<Backend>& s : steps)
      if (s.observer) s.observer->step_begins(s.tokens, s.outputs);
  }

  /// Calls work() and returns its result. Abandons all steps if it throws.
  template <class Work>
  auto or_abandon(const Work& work) {
    try {
      return work();
    } catch (...) {
      abandon();
      throw;
    }
  }

  /// Reads the logits after the last token of a step: the last of the work_.outputs_ rows.
  void read_last(step_observer* observer) {
    during(observer, step_section::logits, [&] { read_logits(work_.outputs_ - 1, 1); });
    if (observer) observer->logits(logits());
  }

  /// Runs a layer for the items in running_.
  void run_layer(layer_id l) {
    common_ = running_.front()->observer;
    if (!std::ranges::all_of(running_, [&](const batch_item* p) { return p->observer == common_; })) common_ = nullptr;
    rows_ = 0;
    for (batch_item* p : running_) {
      enter(*p, l, rows_);
      rows_ += p->count();
    }
    if constexpr (choosing_backend<Backend>) find_layers_ahead(*running_.front());
    if (rows_ > 0) {
      gather(l, rows_);
      compute(l, rows_);
    }
    if constexpr (choosing_backend<Backend>)
      if (ahead_.queueing) return queue_layers_ahead(*running_.front());
    for (batch_item* p : running_) leave(*p, l, [&] { return look(*p); });
  }

  /// The layers that are queued before the tokens are known that the backend chooses.
  struct layers_ahead {
    bool queueing = false;                            // from the layer that makes the first choice on
    bool unnamed = false;                             // from the layer after it on: tokens are known only by their order
    selection_quota quota{};                          // of the first choice
    std::vector<candidacy> standing{};                // (active) of the first layer
    std::vector<layer_counts> counts{};               // of the layers after it
    std::vector<selection_size> sizes{};              // of all selections
    std::vector<std::vector<std::uint32_t>> slots{};  // (counts): the slots of each layer's keys and values
    std::vector<position> order{};                    // 0, 1, 2, ...: stand for the positions
    std::vector<std::uint32_t> stored{};              // the slots of the rows that a layer drops
    std::vector<made_choice> made{};
  };

  /// Finds out whether the backend can choose the tokens after the entered layer and compute all later layers without a stop of the host.
  /// The scorer must rank tokens by one row of attention. All active tokens must be rows, and all counts must be known (step::counts).
  void find_layers_ahead(const batch_item& p) {
    const layer_plan& plan = p.plan;
    if (!may_queue_ahead_ || ahead_.queueing || p.step.wants() != evidence_kind::attention || !p.over_heads || !config_.windows.empty() ||
        plan.rows.size() != plan.active.size())
      return;
    ahead_.standing.resize(plan.active.size());
    const std::optional<selection_quota> quota = p.step.quota(ahead_.standing);
    if (!quota || !quota->row_is_score) return;
    const std::size_t later = config_.layers - plan.layer - 1;
    ahead_.counts.resize(later);
    if (p.step.counts(ahead_.counts) != later) return;
    ahead_.queueing = true;
    ahead_.quota = *quota;
    ahead_.sizes = {{plan.active.size(), quota->count}};
    for (const layer_counts& c : ahead_.counts)
      if (c.chooses) ahead_.sizes.push_back({c.active, c.kept});
  }

  /// Queues the first choice and all later layers, and waits once. Then enters and leaves these layers in the session. Throws `error` at
  /// the first wrong choice. The session is then still inside the layer of this choice. So `abandon` forgets all that was computed from it.
  void queue_layers_ahead(batch_item& p) {
    sequence<Backend>& seq = *p.seq;
    const layer_plan first = p.plan;
    std::size_t dropped = 0;
    during(p.observer, step_section::moving,
           [&] { backend_.begin_choices(first.active, ahead_.standing, ahead_.quota.page, ahead_.sizes); });
    const auto choose = [&](std::size_t active, std::size_t kept) {
      during(p.observer, step_section::policy, [&] { backend_.choose(); });
      during(p.observer, step_section::moving, [&] {
        const rows x = work_.x_.view().slice(0, active);
        if (ahead_.quota.stores_dropped) {
          ahead_.stored.resize(active - kept);
          for (std::uint32_t& slot : ahead_.stored) slot = p.step.slot_after(dropped++);
          backend_.store_dropped(x, seq.stored_, ahead_.stored);
        }
        backend_.take_chosen(x);
      });
    };
    choose(first.active.size(), ahead_.quota.count);
    ahead_.unnamed = true;
    ahead_.slots.resize(ahead_.counts.size());
    const auto stops = [&] { return stopped_ = p.observer && p.observer->stops(); };
    for (std::size_t i = 0; i < ahead_.counts.size() && !stops(); ++i) {
      const layer_counts& c = ahead_.counts[i];
      ahead_.order.resize(c.active);
      std::iota(ahead_.order.begin(), ahead_.order.end(), position{0});
      work_.positions_ = ahead_.order;
      seq.kv_.next_slots(c.layer, c.active, ahead_.slots[i]);
      ahead_at_ = i;
      p.plan = {.layer = c.layer, .active = ahead_.order, .rows = ahead_.order, .sources = {}, .output_rows = c.output_rows};
      p.first = p.first_before = p.skipped = 0;
      p.queries = c.chooses ? 1 : 0;
      rows_ = c.active;
      compute(c.layer, c.active);
      if (c.chooses) choose(c.active, c.kept);
    }
    layer_ = p.step.layers();
    if (stopped_) return;

    during(p.observer, step_section::policy, [&] { backend_.read_choices(ahead_.made); });
    p.plan = first;
    p.skipped = 0;
    p.queries = 1;
    auto choice = ahead_.made.cbegin();
    leave_with(p, *choice++);
    for (std::size_t i = 0; i < ahead_.counts.size(); ++i) {
      if (stops()) return;  // the host may have waited long
      const layer_counts& c = ahead_.counts[i];
      during(p.observer, step_section::policy, [&] { p.plan = p.step.enter(c.layer); });
      p.queries = c.chooses ? 1 : 0;
      if (p.plan.rows.size() != c.active || p.step.wants_scores() != c.chooses)
        throw error("session", "enter of layer " + std::to_string(c.layer), "the counts that the session foretold", "others");
      seq.kv_.name(c.layer, p.plan.rows, ahead_.slots[i]);
      if (p.observer) p.observer->layer_begins(p.plan);
      if (c.chooses)
        leave_with(p, *choice++);
      else
        leave(p, c.layer, [] { return evidence{}; });
    }
    seq.retain_rows();
  }

  /// Leaves a layer with the tokens that the backend chose. Throws `error` if the choice is wrong.
  void leave_with(batch_item& p, const made_choice& made) {
    const layer_id l = p.plan.layer;
    const chosen_tokens chosen{made.chosen, made.scores};
    if (made.stayed != made.chosen.size()) throw error_of(wrong_choice_count{made.chosen.size(), made.stayed}, l + 1, "leave");
    p.step.check(chosen);  // also reports the first score that is not finite
    if (!made.finite) throw error("backend", "choice after layer " + std::to_string(l), "finite scores", "others");
    leave(p, l, [&] { return chosen; });
  }

  void enter(batch_item& p, layer_id l, std::size_t first) {
    during(p.observer, step_section::policy, [&] { p.plan = p.step.enter(l); });
    p.seq->retain_rows();  // frees waiting rows that were dropped: they are in the store by now, or lost
    p.first_before = std::exchange(p.first, first);
    p.skipped = 0;
    p.queries = probe_queries(p.step);
    p.over_heads = p.step.wants() == evidence_kind::values ? std::nullopt : p.step.over_heads();
    p.probes = p.step.probes();
    for (const head_probe& probe : p.probes) check_probe(l, probe);
    if (p.observer) p.observer->layer_begins(p.plan);
  }

  void check_probe(layer_id l, const head_probe& probe) const {
    const auto place = [l] { return "probe of layer " + std::to_string(l); };  // made only for an error
    if (probe.head >= config_.n_heads)
      throw error("sequence", place(), "a head below " + std::to_string(config_.n_heads), std::to_string(probe.head));
    if (config_.window(l) > 0)
      throw error("sequence", place(), "a layer that sees all tokens", "one that sees the last " + std::to_string(config_.window(l)),
                  error_code::unsupported);
  }

  /// Ends the layer in the session. `look()` returns what is shown to it: evidence, or chosen tokens.
  template <class Look>
  void leave(batch_item& p, layer_id l, const Look& look) {
    sequence<Backend>& seq = *p.seq;
    work_.from_rows_.clear();  // the slots that this layer has read
    work_.to_rows_.clear();
    for (const row_source& s : p.plan.sources) {
      if (s.from == origin::stored) work_.from_rows_.push_back(s.index);
      if (s.from == origin::waiting) work_.to_rows_.push_back(s.index);
    }
    during(p.observer, step_section::policy, [&] { p.step.leave(look()); });
    during(p.observer, step_section::moving, [&] {
      seq.stored_.release(work_.from_rows_);
      seq.waiting_.release(work_.to_rows_);
      if (!ahead_.queueing) save(p);
    });
    if (p.observer)
      p.observer->layer_ends({.layer = l,
                              .layers = seq.session_.layers(),
                              .margin = p.step.margin(),
                              .kv_bytes = seq.kv_.bytes(),
                              .stored_bytes = seq.stored_.bytes(),
                              .waiting_bytes = seq.waiting_.bytes(),
                              .scored_pairs = scored_pairs(p)});
  }

  /// Gathers the layer's input in work_.x_: embeddings, rows carried from the layer before, revived rows and waiting rows.
  void gather(layer_id l, std::size_t n) {
    during(common_, step_section::moving, [&] {
      work_.positions_.clear();
      for (const batch_item* p : running_) work_.positions_.insert(work_.positions_.end(), p->plan.rows.begin(), p->plan.rows.end());
      const rows x = room(work_.x_, n);
      if (l == 0) return embed(x);
      if (std::ranges::all_of(running_, [](const batch_item* p) { return in_place(*p); })) return;
      // Carried rows keep their order. The first call moves rows toward the front, the frontmost row first. The second call moves rows
      // toward the end, the last row first, to make room for revived rows. Neither call overwrites rows that the other moves.
      move_carried(x, false);
      move_carried(x, true);
      for (const batch_item* p : running_) {
        take(*p, origin::stored, p->seq->stored_, x);
        take(*p, origin::waiting, p->seq->waiting_, x);
      }
    });
  }

  void embed(rows x) {
    work_.from_rows_.clear();
    for (const batch_item* p : running_)
      for (const position t : p->plan.rows) work_.from_rows_.push_back(p->seq->tokens_[t]);
    backend_.embed(weights_.embedding, work_.from_rows_, config_.embedding_scale, x);
  }

  static bool in_place(const batch_item& p) {
    if (p.first != p.first_before) return false;
    std::size_t i = 0;
    while (i < p.plan.sources.size() && p.plan.sources[i] == row_source{origin::carried, static_cast<std::uint32_t>(i)}) ++i;
    return i == p.plan.sources.size();
  }

  void move_carried(rows x, bool to_the_back) {
    work_.from_rows_.clear();
    work_.to_rows_.clear();
    for (const batch_item* p : running_)
      for (std::size_t i = 0; i < p->plan.sources.size(); ++i) {
        const row_source& s = p->plan.sources[i];
        const std::size_t from = p->first_before + s.index, to = p->first + i;
        if (s.from != origin::carried || from == to || (from < to) != to_the_back) continue;
        work_.from_rows_.push_back(static_cast<std::uint32_t>(from));
        work_.to_rows_.push_back(static_cast<std::uint32_t>(to));
      }
    if (to_the_back) {
      std::ranges::reverse(work_.from_rows_);
      std::ranges::reverse(work_.to_rows_);
    }
    backend_.copy_rows(x, work_.from_rows_, x, work_.to_rows_);
  }

  void take(const batch_item& p, origin from, const typename Backend::row_store& store, rows x) {
    work_.from_rows_.clear();
    work_.to_rows_.clear();
    for (std::size_t i = 0; i < p.plan.sources.size(); ++i) {
      if (p.plan.sources[i].from != from) continue;
      work_.from_rows_.push_back(p.plan.sources[i].index);
      work_.to_rows_.push_back(static_cast<std::uint32_t>(p.first + i));
    }
    backend_.take_rows(store, work_.from_rows_, x, work_.to_rows_);
  }

  void save(batch_item& p) {
    sequence<Backend>& seq = *p.seq;
    const auto list = [&](origin from, origin to, std::size_t first) {
      work_.from_rows_.clear();
      work_.to_rows_.clear();
      for (const spill& s : p.step.spills()) {
        if (s.from != from || s.to != to) continue;
        work_.from_rows_.push_back(static_cast<std::uint32_t>(first + s.row));
        work_.to_rows_.push_back(s.slot);
      }
      return !work_.from_rows_.empty();
    };
    if (p.step.spills().empty()) return;
    const rows x = work_.x_.view();
    if (list(origin::carried, origin::stored, p.first)) backend_.store_rows(x, work_.from_rows_, seq.stored_, work_.to_rows_);
    if (list(origin::carried, origin::waiting, p.first)) backend_.keep_rows(x, work_.from_rows_, seq.waiting_, work_.to_rows_);
    if (!list(origin::waiting, origin::stored, 0)) return;
    work_.slots_.resize(std::min(work_.from_rows_.size(), block_rows));
    std::iota(work_.slots_.begin(), work_.slots_.end(), 0u);
    const std::span<const std::uint32_t> all_from = work_.from_rows_, all_to = work_.to_rows_;
    for (std::size_t done = 0; done < all_from.size(); done += block_rows) {
      const std::size_t n = std::min(block_rows, all_from.size() - done);
      const std::span<const std::uint32_t> between_rows = std::span(work_.slots_).first(n);
      const rows between = room(work_.between_, n);
      backend_.take_rows(seq.waiting_, all_from.subspan(done, n), between, between_rows);
      backend_.store_rows(between, between_rows, seq.stored_, all_to.subspan(done, n));
    }
  }

  /// Computes the rows of the plans, block by block. All rows get keys and values; output rows get the rest of the layer. If some rows are
  /// not outputs, the output rows first move to the front of work_.x_. Before a row attends, the keys that it may see are in the cache.
  void compute(layer_id l, std::size_t n) {
    std::size_t probabilities = 0, most = block_rows;
    for (batch_item* p : running_) {
      p->probabilities = probabilities;
      probabilities += shown_rows(*p) * p->plan.active.size();
      most = std::max(most, p->queries);
    }
    work_.probabilities_.resize(probabilities);

    const bool all = std::ranges::all_of(running_, [](const batch_item* p) { return p->plan.output_rows == p->plan.rows.size(); });
    for_blocks(n, most, [&](std::size_t first, std::size_t last) {
      const operand& norm = attention_norm(l, first, last);
      keys_and_values(l, first, last - first, norm);
      if (all) compute_outputs(l, first, last - first, norm);
    });
    if (all) return;
    const std::size_t finished = move_to_front();
    for_blocks(finished, most,
               [&](std::size_t first, std::size_t last) { compute_outputs(l, first, last - first, attention_norm(l, first, last)); });
  }

  /// Calls work(first, last) for blocks of at most `most` rows of the batch. If one block has fewer rows, it comes first, so that a layer
  /// with fewer rows never needs more scratch. If a scorer reads the probabilities of several rows, all these rows are in one block.
  template <class Work>
  void for_blocks(std::size_t n, std::size_t most, const Work& work) const {
    const auto cut = [&](std::size_t at) {
      for (const batch_item* p : running_)
        if (p->end() - p->queries < at && at < p->end()) return p->end() - p->queries;
      return std::min(at, n);
    };
    std::size_t last = cut(n % most ? n % most : most);
    for (std::size_t first = 0; first < n; first = last, last = cut(last + most))
      if (first < last) work(first, last);
  }

  /// Moves the output rows to the front of work_.x_. Returns their number.
  std::size_t move_to_front() {
    work_.from_rows_.clear();
    work_.to_rows_.clear();
    work_.positions_.clear();
    std::size_t n = 0;
    for (batch_item* p : running_) {
      p->skipped = p->plan.rows.size() - p->plan.output_rows;
      for (std::size_t i = 0; i < p->plan.output_rows; ++i) {
        work_.from_rows_.push_back(static_cast<std::uint32_t>(p->first + p->skipped + i));
        work_.to_rows_.push_back(static_cast<std::uint32_t>(n + i));
        work_.positions_.push_back(p->plan.rows[p->skipped + i]);
      }
      p->first = n;
      n += p->plan.output_rows;
    }
    const rows x = work_.x_.view();
    backend_.copy_rows(x, work_.from_rows_, x, work_.to_rows_);
    return n;
  }

  /// Returns the norm of x, for products with w and with other weights like it (tensor_backend.hpp). The next norm overwrites it.
  const operand& normed(rows x, const parameters& weight, const matrix& w) {
    backend_.prepare(work_.normed_, x.rows, w);
    backend_.rms_norm(x, weight, config_.rms_epsilon, work_.normed_);
    return work_.normed_;
  }

  const operand& attention_norm(layer_id l, std::size_t first, std::size_t last) {
    const layer_weights<Backend>& w = weights_.layers[l];
    during(common_, step_section::norm, [&] { normed(work_.x_.view().slice(first, last - first), w.attention_norm, w.q); });
    return work_.normed_;
  }

  std::span<const position> positions(std::size_t first, std::size_t count) const {
    return std::span<const position>(work_.positions_).subspan(first, count);
  }

  /// Returns the positions to which RoPE rotates the `count` rows from `first` on. While tokens are unnamed, work_.positions_ numbers the
  /// chosen tokens instead.
  row_positions rope_positions(std::size_t first, std::size_t count) {
    if constexpr (choosing_backend<Backend>)
      if (ahead_.unnamed) return {{}, backend_.chosen_positions() + positions(first, count).front()};
    return {positions(first, count)};
  }

  /// Calls work(item, first, count) for each sequence with rows among the `count` rows from `first` on.
  template <class Work>
  void for_items(std::size_t first, std::size_t count, const Work& work) {
    for (batch_item* p : running_) {
      const std::size_t from = std::max(first, p->first), to = std::min(first + count, p->end());
      if (from < to) work(*p, from, to - from);
    }
  }

  void keys_and_values(layer_id l, std::size_t first, std::size_t n, const operand& norm) {
    const layer_weights<Backend>& w = weights_.layers[l];
    during(common_, step_section::qkv, [&] {
      multiply(norm, w.k, w.k_bias, n, work_.k_);
      multiply(norm, w.v, w.v_bias, n, work_.v_);
    });
    during(common_, step_section::rope, [&] {
      if constexpr (attention_from_operands<Backend>) {
        if (w.k_norm) backend_.norm_heads(work_.k_, config_.head_dim, *w.k_norm, config_.rms_epsilon);
        for_items(first, n, [&](batch_item& p, std::size_t from, std::size_t count) {
          const auto put_rows = [&](typename Backend::kv_layer& kv, std::span<const std::uint32_t> slots) {
            backend_.rotate_and_put(kv, slots, work_.k_, work_.v_, from - first, rope_positions(from, count), work_.rope(rope_of(l, p)));
          };
          if (ahead_.unnamed)
            p.seq->kv_.put_unnamed(l, std::span<const std::uint32_t>(ahead_.slots[ahead_at_]).subspan(from, count), put_rows);
          else
            p.seq->kv_.put(l, positions(from, count), put_rows);
        });
      } else {
        const rows k = room(work_.k_, n), v = room(work_.v_, n);
        rotate(l, k, w.k_norm, first);
        for_items(first, n, [&](batch_item& p, std::size_t from, std::size_t count) {
          p.seq->kv_.put(backend_, l, positions(from, count), k.slice(from - first, count), v.slice(from - first, count));
        });
      }
    });
  }

  /// Computes the product of n rows with the weight of queries, keys or values.
  template <class Out>
  void multiply(const operand& x, const matrix& w, const std::optional<parameters>& bias, std::size_t n, Out& out) {
    if constexpr (attention_from_operands<Backend>) {
      backend_.prepare_results(out, n, w);
      backend_.multiply(x, w, get(bias), out);
    } else {
      backend_.multiply(x, w, get(bias), room(out, n));
    }
  }

  /// Computes the rest of the layer for n output rows. `norm`: these rows after the attention norm.
  void compute_outputs(layer_id l, std::size_t first, std::size_t n, const operand& norm) {
    const layer_weights<Backend>& w = weights_.layers[l];
    const rows out = work_.x_.view().slice(first, n);
    during(common_, step_section::qkv, [&] { multiply(norm, w.q, w.q_bias, n, work_.q_); });
    during(common_, step_section::rope, [&] {
      if constexpr (!attention_from_operands<Backend>)
        rotate(l, room(work_.q_, n), w.q_norm, first);
      else if (w.q_norm)
        backend_.norm_heads(work_.q_, config_.head_dim, *w.q_norm, config_.rms_epsilon);
    });
    backend_.prepare(work_.attended_, n, w.o);
    for_items(first, n, [&](batch_item& p, std::size_t from, std::size_t count) {
      during(p.observer, step_section::attention, [&] { attend(p, l, from, count, from - first); });
    });
    during(common_, step_section::output, [&] { add_product(work_.attended_, w.o, w.o_bias, w.o_norm, out); });

    during(common_, step_section::norm, [&] { normed(out, w.ffn_norm, w.gate_up); });
    during(common_, step_section::gate_up, [&] {
      backend_.prepare(work_.ffn_, n, w.down);
      backend_.gated_multiply(work_.normed_, w.gate_up, get(w.gate_up_bias), config_.activation, work_.ffn_);
    });
    during(common_, step_section::down, [&] { add_product(work_.ffn_, w.down, w.down_bias, w.down_norm, out); });
  }

  /// Adds x w^T + bias to `out`, or the norm of this sum if the family has one (Gemma).
  void add_product(const operand& x, const matrix& w, const std::optional<parameters>& bias, const std::optional<parameters>& norm,
                   rows out) {
    if (!norm) return backend_.multiply_add(x, w, get(bias), out);
    const rows between = room(work_.between_, out.rows);
    backend_.multiply(x, w, get(bias), between);
    backend_.rms_norm(between, *norm, config_.rms_epsilon, between);
    backend_.add(between, out);
  }

  /// Applies the norm of each head if the family has one (Qwen3), then RoPE. `x`: the rows of the batch from `first` on.
  void rotate(layer_id l, rows x, const std::optional<parameters>& norm, std::size_t first) {
    if (norm) {
      const std::size_t heads = x.columns / config_.head_dim;
      const rows by_head{x.data, x.rows * heads, config_.head_dim, config_.head_dim};  // buffers are contiguous
      backend_.rms_norm(by_head, *norm, config_.rms_epsilon, by_head);
    }
    const auto turn = [&](rows some, std::size_t from, rope_kind kind) {
      backend_.rotate(some, config_.head_dim, positions(from, some.rows), work_.rope(kind));
    };
    const rope_kind kind = rope_of(l, *running_.front());
    if (std::ranges::all_of(running_, [&](const batch_item* p) { return rope_of(l, *p) == kind; })) return turn(x, first, kind);
    for_items(first, x.rows,
              [&](const batch_item& p, std::size_t from, std::size_t count) { turn(x.slice(from - first, count), from, rope_of(l, p)); });
  }

  rope_kind rope_of(layer_id l, const batch_item& p) const {
    return config_.window_rope && config_.window(l) > 0 ? rope_kind::windowed : p.seq->rope();
  }

  /// Computes the attention of one sequence's `count` rows, from row `first` of the batch on. The rows of work_.q_ from `to` on hold their
  /// queries. The results go to the rows of work_.attended_ from `to` on.
  void attend(const batch_item& p, layer_id l, std::size_t first, std::size_t count, std::size_t to) {
    const std::span<const position> tokens = positions(first, count);
    const std::span<const position> all_rows = p.plan.rows.last(p.plan.output_rows), active = p.plan.active;
    if (ahead_.unnamed)
      work_.slots_ = ahead_.slots[ahead_at_];
    else
      p.seq->kv_.slots(l, active, work_.slots_);
    attention_probe probe;
    if (p.queries > 0 && first + count == p.end())
      probe = {.data = ahead_.queueing ? nullptr : work_.probabilities_.data() + p.probabilities,
               .queries = p.queries,
               .stride = active.size(),
               .over_heads = p.over_heads,
               .probes = p.probes};
    const attention_rows what{{config_.n_heads, config_.n_kv_heads, config_.head_dim},
                              tokens,
                              active,
                              work_.slots_,
                              all_rows,
                              {config_.attention_scale, config_.attention_soft_cap, config_.window(l)}};
    if constexpr (attention_from_operands<Backend>)
      backend_.attend(work_.q_, to, rope_positions(first, count), work_.rope(rope_of(l, p)), p.seq->kv_.rows(l), what, work_.attended_, to,
                      probe);
    else
      backend_.attend(work_.q_.view().slice(to, count), p.seq->kv_.rows(l), what, work_.attended_, to, probe);
  }

  static std::size_t probe_queries(const step<any_session>& step) {
    switch (step.wants()) {
      case evidence_kind::attention:
      case evidence_kind::values:
        return 1;
      case evidence_kind::window:
      case evidence_kind::probes:
        return step.window();
      default:
        return 0;
    }
  }

  /// The number of heads in the probabilities: one if the backend reduces them.
  std::size_t shown_heads(const batch_item& p) const { return p.over_heads ? 1 : config_.n_heads; }
  /// The number of rows in the probabilities.
  std::size_t shown_rows(const batch_item& p) const { return p.probes.empty() ? p.queries * shown_heads(p) : p.probes.size(); }

  /// See layer_end::scored_pairs.
  std::size_t scored_pairs(const batch_item& p) const {
    return (p.probes.empty() ? config_.n_heads : p.probes.size()) * p.queries * p.plan.active.size();
  }

  /// Sets work_.values_ to the `count` numbers that read(out) writes.
  template <class Read>
  void show(std::size_t count, const Read& read) {
    work_.values_.resize(count);
    if constexpr (std::same_as<scalar, float>) {
      read(work_.values_.data());
    } else {
      work_.read_.resize(count);
      read(work_.read_.data());
      std::ranges::transform(work_.read_, work_.values_.begin(), [](scalar value) { return static_cast<float>(value); });
    }
  }

  /// Collects the evidence that the scorer asks for, and nothing else.
  evidence look(const batch_item& p) {
    const layer_plan& plan = p.plan;
    const std::size_t heads = shown_heads(p), kv_size = config_.n_kv_heads * config_.head_dim, active = plan.active.size();
    const float* const probabilities = work_.probabilities_.data() + p.probabilities;
    const attention_view attention{probabilities, heads, active, plan.active};
    const auto read_cache = [&](auto read) {
      p.seq->kv_.slots(plan.layer, plan.active, work_.slots_);
      show(active * kv_size, [&](scalar* out) { (backend_.*read)(p.seq->kv_.rows(plan.layer), work_.slots_, out); });
    };
    switch (p.step.wants()) {
      case evidence_kind::none:
        return {};
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{probabilities, p.queries, heads, active, plan.active};
      case evidence_kind::keys:
        read_cache(&Backend::read_keys);
        return key_view{work_.values_.data(), config_.n_kv_heads, config_.head_dim, kv_size, plan.active};
      case evidence_kind::values:
        read_cache(&Backend::read_values);
        return value_view{attention, work_.values_.data(), config_.n_kv_heads, config_.head_dim, kv_size};
      case evidence_kind::hidden: {
        const rows x = work_.x_.view().slice(p.first, plan.rows.size());
        show(plan.rows.size() * config_.hidden, [&](scalar* out) { backend_.read(x, out); });
        return hidden_view{work_.values_.data(), config_.hidden, config_.hidden, plan.rows, plan.active};
      }
      case evidence_kind::ids:
        return id_view{p.seq->tokens_, plan.active};
      case evidence_kind::probes:
        return probe_view{probabilities, p.probes.size(), active, plan.active};
    }
    return {};
  }

  const model_config& config_;
  const model_weights<Backend>& weights_;
  Backend& backend_;
  workspace<Backend>& work_;
  std::vector<batch_item> items_;
  std::vector<batch_item*> running_;  // the items in the current layer
  step_observer* common_ = nullptr;   // the observer of all of them; null if they have none, or several
  layer_id layer_ = 0;                // the next layer
  std::size_t rows_ = 0;              // of the layer that ran last, over all items
  bool may_queue_ahead_ = false;      // whether one sequence runs all its layers at once
  layers_ahead ahead_;
  std::size_t ahead_at_ = 0;  // the index in ahead_.counts of the layer that is computed
  bool stopped_ = false;      // whether an observer has stopped the steps
};

/// Runs one step for each of several sequences. They may differ in length, policy and phase; each matrix product takes the rows of all
/// sequences together. Returns false if an observer stopped the steps. Otherwise `read_logits` can read the logits of the outputs
/// afterwards. Throws `error` and changes nothing in these cases: a token id is outside the vocabulary; the tokens exceed the model's
/// positions or the session's limit; a step has no tokens, or more outputs than tokens; a sequence belongs to another model than the
/// workspace, or is given twice. If anything throws later, or an observer stops a step, all steps are abandoned (step_machine::abandon).
/// But if an observer throws in `step_ends`, the steps are already done.
///
/// If the backend can choose tokens (choosing_backend) and there is only one sequence, a pruned prompt needs no stop of the host between
/// its layers: the work of all layers is queued, and the chosen tokens are read once. The policy must rank tokens by the attention of the
/// query token, and the counts of all layers must be known (step::counts). The results are the same. Observers are told of the layers after
/// the first selection once all work is queued. If an observer stops such a step, the statistics lack the rows of these layers.
template <tensor_backend Backend>
[[nodiscard]] bool forward(workspace<Backend>& work, std::type_identity_t<std::span<const sequence_step<Backend>>> steps) {
  return transformer<Backend>(work).run(steps, false);
}

/// Runs one step of one sequence, as a batch of one.
template <tensor_backend Backend>
[[nodiscard]] bool forward(workspace<Backend>& work, const sequence_step<Backend>& step) {
  return forward(work, std::span(&step, 1));
}

/// Reads the logits of `count` outputs of the workspace's last step: (count, vocabulary), from output `first` on. The outputs of all
/// sequences are numbered in the order of the steps. The result is valid until the workspace is used again. Logits take more memory than
/// any other rows, so read many of them in several calls. Throws `error` (wrong_order) if the step has fewer outputs.
template <tensor_backend Backend>
std::span<const typename Backend::scalar> read_logits(workspace<Backend>& work, std::size_t first, std::size_t count = 1) {
  return transformer<Backend>(work).read_logits(first, count);
}

/// Runs one step over new tokens of a sequence. Returns the logits (vocabulary) after the last token, valid until the workspace is used
/// again. The result is empty if the observer stopped the step. Throws as `forward` does for a batch.
template <tensor_backend Backend>
std::span<const typename Backend::scalar> forward(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> tokens,
                                                  phase phase, step_observer* observer = nullptr) {
  const sequence_step<Backend> step{seq, tokens, phase, 1, observer};
  transformer<Backend> pass(work);
  if (!pass.run(std::span(&step, 1), true)) return {};
  return pass.logits();
}

/// Returns the self-information of each token: -log p(token | tokens before it), in nats, and infinity for the first token. Runs one
/// prefill of `seq`, a new sequence. All rows are outputs, so no token is pruned. The result is empty if the observer stopped the step.
/// Throws as `forward` does, and if the sequence is not new.
template <tensor_backend Backend>
std::vector<double> self_information(workspace<Backend>& work, sequence<Backend>& seq, std::span<const token_id> tokens,
                                     step_observer* observer = nullptr) {
  if (seq.known() > 0) throw error("sequence", "tokens", "none yet", std::to_string(seq.known()));
  const sequence_step<Backend> step{seq, tokens, phase::prefill, tokens.size(), observer};
  if (!forward(work, step)) return {};
  std::vector<double> information{std::numeric_limits<double>::infinity()};
  constexpr std::size_t block = 64;  // rows read at a time; bounds the memory of the logits
  for (std::size_t first = 0; first + 1 < tokens.size(); first += block) {
    const std::size_t n = std::min(block, tokens.size() - 1 - first), vocabulary = work.model().config.vocabulary;
    const auto logits = read_logits(work, first, n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto row = logits.subspan(i * vocabulary, vocabulary);
      information.push_back(log_sum_exp(row) - row[tokens[first + i + 1]]);
    }
  }
  return information;
}

}  // namespace v0
}  // namespace lazyprune
