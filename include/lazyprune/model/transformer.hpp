// SPDX-License-Identifier: MIT
// The Llama family (RMSNorm, RoPE, grouped-query attention, SwiGLU), written once over any backend and driven by a pruning session:
// each layer computes the rows that the session plans and attends over the tokens that it calls active. The dense model is the same
// code under a policy that keeps everything.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <lazyprune/model/decoder_state.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
inline namespace v0 {

/// What parts of a step took.
struct step_seconds {
  double attention = 0;
  double logits = 0;  // the product of the last row with the head
};

template <tensor_backend Backend>
class transformer {
 public:
  using scalar = typename Backend::scalar;

  transformer(const model<Backend>& m, Backend& backend) : model_(m), config_(m.config), weights_(m.weights), backend_(backend) {}

  /// One step over new tokens. Returns the logits (vocabulary) after the last one, valid until the next step. With `trace` the step
  /// is recorded there, all but `step` and `logits`. Throws where the tokens are none of the model's or exceed its positions or the
  /// session's room, and where state and session are not of one sequence. Nothing is returned where the step was stopped: state and
  /// session are then of no further use until they are cleared.
  std::span<const scalar> forward(decoder_state<Backend>& state, any_session& session, std::span<const token_id> tokens, phase phase,
                                  step_trace* trace = nullptr) {
    const std::size_t rows_of_last_layer = pass(state, session, tokens, phase, trace, outputs::last);
    if (rows_of_last_layer == 0) return {};
    timed(seconds_.logits, [&] { read_logits(state, rows_of_last_layer - 1, state.logits); });
    if (trace) trace->next = static_cast<token_id>(std::ranges::max_element(state.logits) - state.logits.begin());
    return state.logits;
  }

  /// How much each token tells: -log p(token | those before it) in nats, infinity for the first, which nothing comes before. One prefill
  /// of a fresh state under a session that keeps everything, whose last layer finishes all rows. Throws as `forward` does, and where the
  /// session has dropped tokens. Empty where the step was stopped.
  std::vector<double> self_information(decoder_state<Backend>& state, any_session& session, std::span<const token_id> tokens) {
    const std::size_t computed = pass(state, session, tokens, phase::prefill, nullptr, outputs::all);
    if (computed == 0) return {};
    if (computed != session.known() || computed != tokens.size())
      throw error("session", "tokens", "a new sequence, and none dropped",
                  std::to_string(computed) + " of " + std::to_string(session.known()));
    std::vector<double> information{std::numeric_limits<double>::infinity()};
    constexpr std::size_t block = 64;  // rows: logits are the widest of all
    std::vector<scalar> logits;
    for (std::size_t first = 0; first + 1 < computed; first += block) {
      const std::size_t n = std::min(block, computed - 1 - first);
      logits.resize(n * config_.vocabulary);
      read_logits(state, first, logits);
      for (std::size_t i = 0; i < n; ++i) {
        const auto row = std::span<const scalar>(logits).subspan(i * config_.vocabulary, config_.vocabulary);
        information.push_back(log_sum_exp(row) - row[tokens[first + i + 1]]);
      }
    }
    return information;
  }

  /// Asked before each layer: true ends the step.
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }

  /// Of the last step.
  const step_seconds& seconds() const { return seconds_; }

  /// Rotary tables for sequences of so many tokens; without it they grow by doubling.
  void reserve(decoder_state<Backend>& state, std::size_t tokens) {
    if (tokens <= state.rope_positions) return;
    state.rope_positions = std::min(tokens, config_.max_positions);
    const rope_frequencies frequencies = frequencies_of(config_.rope, config_.head_dim);
    state.rope = backend_.make_rope(frequencies.radians, frequencies.scale, state.rope_positions);
  }

 private:
  using matrix = typename Backend::matrix;
  using parameters = typename Backend::parameters;
  using rows = rows_view<scalar>;
  enum class outputs { last, all };  // the rows that the last layer finishes

  static const parameters* get(const std::optional<parameters>& p) { return p ? &*p : nullptr; }

  template <class Work>
  static decltype(auto) timed(double& seconds, Work&& work) {
    struct clock {
      double& seconds;
      std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      ~clock() { seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
    } running{seconds};
    return work();
  }

  void check(const decoder_state<Backend>& state, const any_session& session, std::span<const token_id> tokens) const {
    if (session.layers() != config_.layers)
      throw error("session", "layers", std::to_string(config_.layers) + " as in the model", std::to_string(session.layers()));
    if (state.tokens.size() != session.known())
      throw error("decoder_state", "tokens", std::to_string(session.known()) + " as the session knows",
                  std::to_string(state.tokens.size()));
    for (const token_id id : tokens)
      if (id >= config_.vocabulary)
        throw error("tokens", "token id", "below the vocabulary's " + std::to_string(config_.vocabulary), std::to_string(id));
    const std::size_t known = session.known() + tokens.size();
    if (known > config_.max_positions)
      throw error("tokens", "length", "at most the model's " + std::to_string(config_.max_positions) + " positions", std::to_string(known));
  }

  static rows room(typename Backend::buffer& buffer, std::size_t n) {
    buffer.reserve(n);
    return buffer.view().slice(0, n);
  }

  /// The layers of one step. Returns the rows of the last layer, in state.x; 0 where the step was stopped.
  std::size_t pass(decoder_state<Backend>& state, any_session& session, std::span<const token_id> tokens, phase phase, step_trace* trace,
                   outputs wanted) {
    check(state, session, tokens);
    auto step = session.begin(tokens.size(), phase);
    state.tokens.insert(state.tokens.end(), tokens.begin(), tokens.end());
    if (state.tokens.size() > state.rope_positions) reserve(state, std::max(state.tokens.size(), 2 * state.rope_positions));
    if (trace) trace->tokens.assign(tokens.begin(), tokens.end()), trace->layers.clear(), trace->margin.clear();

    seconds_ = {};
    std::size_t rows_of_last_layer = 0;
    for (layer_id l = 0; l < config_.layers; ++l) {
      if (stop_ && stop_()) return 0;
      layer_plan plan = timed(state.overhead.policy, [&] { return step.enter(l); });
      if (wanted == outputs::all) plan.finish = plan.rows.size();
      if (trace) record(plan, *trace);
      timed(state.overhead.moving, [&] { gather(state, plan); });
      rows_of_last_layer = plan.rows.size();
      const std::size_t queries = probe_queries(step);
      layer(state, plan, queries);
      timed(state.overhead.policy, [&] { step.leave(look(state, plan, step.wants(), queries)); });
      timed(state.overhead.moving, [&] { save(state, step.spills()); });
      state.note_memory();
      if (trace && l + 1 < config_.layers)
        trace->margin.push_back(std::isfinite(step.margin()) ? std::optional<double>(step.margin()) : std::nullopt);
    }
    step.finish();
    return rows_of_last_layer;
  }

  /// Brings the layer's input together in state.x: embeddings, rows of the layer before, and revived rows from the aux store.
  void gather(decoder_state<Backend>& state, const layer_plan& plan) {
    const std::size_t n = plan.rows.size();
    if (plan.layer == 0) {
      state.from_rows.resize(n);
      for (std::size_t i = 0; i < n; ++i) state.from_rows[i] = state.tokens[plan.rows[i]];
      backend_.embed(weights_.embedding, state.from_rows, room(state.x, n));
      return;
    }
    // In place. Carried rows stay in order: those that move to the front give way to each other from the front on, those that revived rows
    // push back, from the back; and neither kind is in the way of the other.
    state.x.reserve(n);
    const rows x = state.x.view();
    const auto pick = [&](bool backward, auto&& wanted) {
      state.from_rows.clear();
      state.to_rows.clear();
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t i = backward ? n - 1 - k : k;
        if (!wanted(plan.sources[i], i)) continue;
        state.from_rows.push_back(plan.sources[i].index);
        state.to_rows.push_back(static_cast<std::uint32_t>(i));
      }
    };
    using origin = row_source::origin;
    pick(false, [](const row_source& s, std::size_t i) { return s.from == origin::carried && s.index > i; });
    backend_.copy_rows(x, state.from_rows, x, state.to_rows);
    pick(true, [](const row_source& s, std::size_t i) { return s.from == origin::carried && s.index < i; });
    backend_.copy_rows(x, state.from_rows, x, state.to_rows);
    pick(false, [](const row_source& s, std::size_t) { return s.from == origin::stored; });
    backend_.take_rows(state.aux, state.from_rows, x, state.to_rows);
  }

  void save(decoder_state<Backend>& state, std::span<const spill> spills) {
    if (spills.empty()) return;
    state.from_rows.clear();
    state.to_rows.clear();
    for (const spill& s : spills) {
      state.from_rows.push_back(s.row);
      state.to_rows.push_back(s.slot);
    }
    backend_.store_rows(state.x.view(), state.from_rows, state.aux, state.to_rows);
  }

  /// Computes the plan's rows: keys and values of all, the rest of the layer for those that are to be finished. Works through them in
  /// blocks; a row's keys are in the cache before any row that may see them attends.
  void layer(decoder_state<Backend>& state, const layer_plan& plan, std::size_t queries) {
    const std::size_t n = plan.rows.size(), most = std::max(decoder_state<Backend>::block_rows, queries);
    // The odd block comes first: the last one holds all that is probed, and fewer rows never need more scratch.
    for (std::size_t first = 0, last = n % most ? n % most : most; first < n; first = last, last += most)
      block(state, plan, first, last, last == n ? queries : 0);
  }

  void block(decoder_state<Backend>& state, const layer_plan& plan, std::size_t first, std::size_t last, std::size_t queries) {
    const layer_weights<Backend>& w = weights_.layers[plan.layer];
    const std::span<const position> tokens = plan.rows.subspan(first, last - first);
    const rows x = state.x.view().slice(first, tokens.size());
    const rows norm = room(state.norm, tokens.size());
    backend_.rms_norm(x, w.attention_norm, config_.rms_epsilon, norm);

    const rows k = room(state.k, tokens.size()), v = room(state.v, tokens.size());
    backend_.multiply(norm, w.k, get(w.k_bias), k);
    backend_.multiply(norm, w.v, get(w.v_bias), v);
    rotate(state, k, w.k_norm, tokens);
    state.kv.append(backend_, plan.layer, tokens, k, v);

    const std::size_t unfinished = plan.rows.size() - plan.finish;  // rows that need keys and values only come first
    const std::size_t skip = std::clamp(unfinished, first, last) - first;
    if (skip == tokens.size()) return;
    const std::size_t n = tokens.size() - skip;
    const std::span<const position> finished = tokens.subspan(skip);
    const rows out = x.slice(skip, n), normed = norm.slice(skip, n);

    const rows q = room(state.q, n), attended = room(state.attention, n);
    backend_.multiply(normed, w.q, get(w.q_bias), q);
    rotate(state, q, w.q_norm, finished);
    timed(seconds_.attention, [&] { attend(state, plan, finished, q, attended, queries); });
    backend_.multiply_add(attended, w.o, get(w.o_bias), out);

    const rows ffn = room(state.ffn, n);
    backend_.rms_norm(out, w.ffn_norm, config_.rms_epsilon, normed);
    backend_.gated_multiply(normed, w.gate_up, get(w.gate_up_bias), ffn);
    backend_.multiply_add(ffn, w.down, get(w.down_bias), out);
  }

  /// Per-head norm where the family has one (Qwen3), then RoPE.
  void rotate(decoder_state<Backend>& state, rows x, const std::optional<parameters>& norm, std::span<const position> tokens) {
    if (norm) {
      const std::size_t heads = x.columns / config_.head_dim;
      const rows by_head{x.data, x.rows * heads, config_.head_dim, config_.head_dim};  // the buffers are contiguous
      backend_.rms_norm(by_head, *norm, config_.rms_epsilon, by_head);
    }
    backend_.rotate(x, config_.head_dim, tokens, *state.rope);
  }

  void attend(decoder_state<Backend>& state, const layer_plan& plan, std::span<const position> tokens, rows q, rows out,
              std::size_t queries) {
    const auto seen = static_cast<std::size_t>(std::ranges::upper_bound(plan.active, tokens.back()) - plan.active.begin());
    const std::span<const position> active = plan.active.first(seen);
    state.kv.slots(plan.layer, active, state.slots);
    attention_probe probe;
    if (queries > 0) {
      state.probabilities.resize(queries * config_.n_heads * active.size());
      probe = {.data = state.probabilities.data(), .queries = queries, .stride = active.size()};
    }
    backend_.attend(q, state.kv.rows(plan.layer),
                    attention_rows{{config_.n_heads, config_.n_kv_heads, config_.head_dim}, tokens, active, state.slots}, out, probe);
  }

  static std::size_t probe_queries(const step<any_session>& step) {
    switch (step.wants()) {
      case evidence_kind::attention:
      case evidence_kind::values:
        return 1;
      case evidence_kind::window:
        return step.window();
      default:
        return 0;
    }
  }

  /// The evidence that the scorer asked for, and no other.
  evidence look(decoder_state<Backend>& state, const layer_plan& plan, evidence_kind kind, std::size_t queries) {
    const std::size_t heads = config_.n_heads, kv_size = config_.n_kv_heads * config_.head_dim, active = plan.active.size();
    const attention_view attention{state.probabilities.data(), heads, active, plan.active};
    const auto read_cache = [&](auto read) {
      state.kv.slots(plan.layer, plan.active, state.slots);
      state.values.resize(active * kv_size);
      (backend_.*read)(state.kv.rows(plan.layer), state.slots, state.values.data());
    };
    switch (kind) {
      case evidence_kind::none:
        return {};
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{state.probabilities.data(), queries, heads, active, plan.active};
      case evidence_kind::keys:
        read_cache(&Backend::read_keys);
        return key_view{state.values.data(), config_.n_kv_heads, config_.head_dim, kv_size, plan.active};
      case evidence_kind::values:
        read_cache(&Backend::read_values);
        return value_view{attention, state.values.data(), config_.n_kv_heads, config_.head_dim, kv_size};
      case evidence_kind::hidden: {
        state.hidden_rows.resize(plan.rows.size() * config_.hidden);
        backend_.read(state.x.view().slice(0, plan.rows.size()), state.hidden_rows.data());
        state.values.resize(state.hidden_rows.size());
        std::ranges::transform(state.hidden_rows, state.values.begin(), [](scalar value) { return static_cast<float>(value); });
        return hidden_view{state.values.data(), config_.hidden, config_.hidden, plan.rows, plan.active};
      }
    }
    return {};
  }

  /// Of the last layer's rows from `first` on, as many as there is room for: out (rows, vocabulary).
  void read_logits(decoder_state<Backend>& state, std::size_t first, std::span<scalar> out) {
    const std::size_t n = out.size() / config_.vocabulary;
    const rows x = state.x.view().slice(first, n), norm = room(state.norm, n), logits = room(state.logits_row, n);
    backend_.rms_norm(x, weights_.norm, config_.rms_epsilon, norm);
    backend_.multiply(norm, model_.head(), nullptr, logits);
    backend_.read(logits, out.data());
  }

  static void record(const layer_plan& plan, step_trace& trace) {
    layer_trace& layer = trace.layers.emplace_back();
    layer.active.assign(plan.active.begin(), plan.active.end());
    layer.rows.assign(plan.rows.begin(), plan.rows.end());
    for (std::size_t i = 0; i < plan.rows.size(); ++i)
      if (plan.sources[i].from == row_source::origin::stored) layer.revived.push_back(plan.rows[i]);
  }

  const model<Backend>& model_;
  const model_config& config_;
  const model_weights<Backend>& weights_;
  Backend& backend_;
  std::function<bool()> stop_;
  step_seconds seconds_;
};

}  // namespace v0
}  // namespace lazyprune
