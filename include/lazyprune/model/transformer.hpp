// SPDX-License-Identifier: MIT
// The Llama family (RMSNorm, RoPE, grouped-query attention, SwiGLU), written once over any backend and driven by a pruning session:
// each layer computes the rows that the session plans and attends over the tokens that it calls active. The dense model is the same
// code under a policy that keeps everything.
#pragma once

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <vector>

#include <lazyprune/model/observer.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/model/sequence.hpp>
#include <lazyprune/model/workspace.hpp>

namespace lazyprune {
inline namespace v0 {

/// One step in the making: it takes the rows that a session plans through the layers of a model. `forward` and `self_information` make one
/// for each step.
template <tensor_backend Backend>
class transformer {
 public:
  using scalar = typename Backend::scalar;

  transformer(workspace<Backend>& work, step_observer* observer)
      : config_(work.model().config), weights_(work.model().weights), backend_(work.backend()), work_(work), observer_(observer) {}

  std::span<const scalar> forward(sequence<Backend>& text, std::span<const token_id> tokens, phase phase) {
    const std::size_t rows_of_last_layer = pass(text, tokens, phase, outputs::last);
    if (rows_of_last_layer == 0) return {};
    during(step_part::logits, [&] { read_logits(rows_of_last_layer - 1, work_.logits_); });
    if (observer_) {
      observer_->logits(std::span<const scalar>(work_.logits_));
      observer_->step_ends(text.session_);
    }
    return work_.logits_;
  }

  std::vector<double> self_information(sequence<Backend>& text, std::span<const token_id> tokens) {
    const std::size_t computed = pass(text, tokens, phase::prefill, outputs::all);
    if (computed == 0) return {};
    if (computed != text.known() || computed != tokens.size())
      throw error("session", "tokens", "a new sequence, and none dropped",
                  std::to_string(computed) + " of " + std::to_string(text.known()));
    if (observer_) observer_->step_ends(text.session_);
    std::vector<double> information{std::numeric_limits<double>::infinity()};
    constexpr std::size_t block = 64;  // rows: logits are the widest of all
    std::vector<scalar> logits;
    for (std::size_t first = 0; first + 1 < computed; first += block) {
      const std::size_t n = std::min(block, computed - 1 - first);
      logits.resize(n * config_.vocabulary);
      read_logits(first, logits);
      for (std::size_t i = 0; i < n; ++i) {
        const auto row = std::span<const scalar>(logits).subspan(i * config_.vocabulary, config_.vocabulary);
        information.push_back(log_sum_exp(row) - row[tokens[first + i + 1]]);
      }
    }
    return information;
  }

 private:
  using matrix = typename Backend::matrix;
  using parameters = typename Backend::parameters;
  using rows = rows_view<scalar>;
  enum class outputs { last, all };  // the rows that the last layer finishes

  static const parameters* get(const std::optional<parameters>& p) { return p ? &*p : nullptr; }

  /// work(), with the observer told of its beginning and end.
  template <class Work>
  decltype(auto) during(step_part part, Work&& work) {
    struct told {
      step_observer* observer;
      step_part part;
      told(step_observer* o, step_part p) : observer(o), part(p) {
        if (observer) observer->part_begins(part);
      }
      ~told() {
        if (observer) observer->part_ends(part);
      }
    } around(observer_, part);
    return work();
  }

  void check(const sequence<Backend>& text, std::span<const token_id> tokens) const {
    if (&text.model() != &work_.model()) throw error("sequence", "model", "the workspace's", "another");
    for (const token_id id : tokens)
      if (id >= config_.vocabulary)
        throw error("tokens", "token id", "below the vocabulary's " + std::to_string(config_.vocabulary), std::to_string(id));
    const std::size_t known = text.known() + tokens.size();
    if (known > config_.max_positions)
      throw error("tokens", "length", "at most the model's " + std::to_string(config_.max_positions) + " positions", std::to_string(known),
                  error_code::no_room);
  }

  static rows room(typename Backend::buffer& buffer, std::size_t n) {
    buffer.reserve(n);
    return buffer.view().slice(0, n);
  }

  /// The layers of one step. Returns the rows of the last layer, in work_.x_; 0 where the step was stopped.
  std::size_t pass(sequence<Backend>& text, std::span<const token_id> tokens, phase phase, outputs wanted) {
    check(text, tokens);
    // What throws before the session begins the step leaves the sequence as it was.
    text.make_room(tokens.size());
    work_.reserve(text.known() + tokens.size());
    auto step = text.session_.begin({.tokens = tokens.size(), .phase = phase});
    text.tokens_.insert(text.tokens_.end(), tokens.begin(), tokens.end());
    if (observer_) observer_->step_begins(tokens);

    std::size_t rows_of_last_layer = 0;
    for (layer_id l = 0; l < config_.layers; ++l) {
      if (observer_ && observer_->stops()) return 0;
      layer_plan plan = during(step_part::policy, [&] { return step.enter(l); });
      if (wanted == outputs::all) plan.finish = plan.rows.size();
      if (observer_) observer_->layer_begins(plan);
      during(step_part::moving, [&] { gather(text, plan); });
      rows_of_last_layer = plan.rows.size();
      const std::size_t queries = probe_queries(step);
      layer(text, plan, queries);
      during(step_part::policy, [&] { step.leave(look(text, plan, step.wants(), queries)); });
      during(step_part::moving, [&] { save(text, step.spills()); });
      if (observer_) observer_->layer_ends({l, text.session_.layers(), step.margin(), text.kv_.bytes(), text.stored_.bytes()});
    }
    step.finish();
    return rows_of_last_layer;
  }

  /// Brings the layer's input together in work_.x_: embeddings, rows of the layer before, and revived rows from the aux store.
  void gather(sequence<Backend>& text, const layer_plan& plan) {
    const std::size_t n = plan.rows.size();
    if (plan.layer == 0) {
      work_.from_rows_.resize(n);
      for (std::size_t i = 0; i < n; ++i) work_.from_rows_[i] = text.tokens_[plan.rows[i]];
      backend_.embed(weights_.embedding, work_.from_rows_, room(work_.x_, n));
      return;
    }
    using origin = row_source::origin;
    std::size_t in_place = 0;
    while (in_place < n && plan.sources[in_place].from == origin::carried && plan.sources[in_place].index == in_place) ++in_place;
    if (in_place == n) return;
    // Rows move within one buffer. Carried rows stay in order: those that move to the front give way to each other from the front on, those
    // that revived rows push back do so from the back on, and neither kind is in the way of the other.
    work_.x_.reserve(n);
    const rows x = work_.x_.view();
    const auto pick = [&](bool backward, auto&& wanted) {
      work_.from_rows_.clear();
      work_.to_rows_.clear();
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t i = backward ? n - 1 - k : k;
        if (!wanted(plan.sources[i], i)) continue;
        work_.from_rows_.push_back(plan.sources[i].index);
        work_.to_rows_.push_back(static_cast<std::uint32_t>(i));
      }
    };
    pick(false, [](const row_source& s, std::size_t i) { return s.from == origin::carried && s.index > i; });
    backend_.copy_rows(x, work_.from_rows_, x, work_.to_rows_);
    pick(true, [](const row_source& s, std::size_t i) { return s.from == origin::carried && s.index < i; });
    backend_.copy_rows(x, work_.from_rows_, x, work_.to_rows_);
    pick(false, [](const row_source& s, std::size_t) { return s.from == origin::stored; });
    backend_.take_rows(text.stored_, work_.from_rows_, x, work_.to_rows_);
  }

  void save(sequence<Backend>& text, std::span<const spill> spills) {
    if (spills.empty()) return;
    work_.from_rows_.clear();
    work_.to_rows_.clear();
    for (const spill& s : spills) {
      assert(s.from == row_source::origin::carried && s.to == row_source::origin::stored);  // no step is a chunk
      work_.from_rows_.push_back(s.row);
      work_.to_rows_.push_back(s.slot);
    }
    backend_.store_rows(work_.x_.view(), work_.from_rows_, text.stored_, work_.to_rows_);
  }

  /// Computes the plan's rows: keys and values of all, the rest of the layer for those that are to be finished. Works through them in
  /// blocks; a row's keys are in the cache before any row that may see them attends.
  void layer(sequence<Backend>& text, const layer_plan& plan, std::size_t queries) {
    const std::size_t n = plan.rows.size(), most = std::max(block_rows, queries);
    // The odd block comes first: the last one holds all that is probed, and fewer rows never need more scratch.
    for (std::size_t first = 0, last = n % most ? n % most : most; first < n; first = last, last += most)
      block(text, plan, first, last, last == n ? queries : 0);
  }

  void block(sequence<Backend>& text, const layer_plan& plan, std::size_t first, std::size_t last, std::size_t queries) {
    const layer_weights<Backend>& w = weights_.layers[plan.layer];
    const std::span<const position> tokens = plan.rows.subspan(first, last - first);
    const rows x = work_.x_.view().slice(first, tokens.size());
    const rows norm = room(work_.norm_, tokens.size());
    backend_.rms_norm(x, w.attention_norm, config_.rms_epsilon, norm);

    const rows k = room(work_.k_, tokens.size()), v = room(work_.v_, tokens.size());
    backend_.multiply(norm, w.k, get(w.k_bias), k);
    backend_.multiply(norm, w.v, get(w.v_bias), v);
    rotate(k, w.k_norm, tokens);
    text.kv_.append(backend_, plan.layer, tokens, k, v);

    const std::size_t unfinished = plan.rows.size() - plan.finish;  // rows that need keys and values only come first
    const std::size_t skip = std::clamp(unfinished, first, last) - first;
    if (skip == tokens.size()) return;
    const std::size_t n = tokens.size() - skip;
    const std::span<const position> finished = tokens.subspan(skip);
    const rows out = x.slice(skip, n), normed = norm.slice(skip, n);

    const rows q = room(work_.q_, n), attended = room(work_.attended_, n);
    backend_.multiply(normed, w.q, get(w.q_bias), q);
    rotate(q, w.q_norm, finished);
    during(step_part::attention, [&] { attend(text, plan, finished, q, attended, queries); });
    backend_.multiply_add(attended, w.o, get(w.o_bias), out);

    const rows ffn = room(work_.ffn_, n);
    backend_.rms_norm(out, w.ffn_norm, config_.rms_epsilon, normed);
    backend_.gated_multiply(normed, w.gate_up, get(w.gate_up_bias), ffn);
    backend_.multiply_add(ffn, w.down, get(w.down_bias), out);
  }

  /// Applies the norm of each head where the family has one (Qwen3), then RoPE.
  void rotate(rows x, const std::optional<parameters>& norm, std::span<const position> tokens) {
    if (norm) {
      const std::size_t heads = x.columns / config_.head_dim;
      const rows by_head{x.data, x.rows * heads, config_.head_dim, config_.head_dim};  // the buffers are contiguous
      backend_.rms_norm(by_head, *norm, config_.rms_epsilon, by_head);
    }
    backend_.rotate(x, config_.head_dim, tokens, work_.rope_->values);
  }

  void attend(sequence<Backend>& text, const layer_plan& plan, std::span<const position> tokens, rows q, rows out, std::size_t queries) {
    const auto seen = static_cast<std::size_t>(std::ranges::upper_bound(plan.active, tokens.back()) - plan.active.begin());
    const std::span<const position> active = plan.active.first(seen);
    text.kv_.slots(plan.layer, active, work_.slots_);
    attention_probe probe;
    if (queries > 0) {
      work_.probabilities_.resize(queries * config_.n_heads * active.size());
      probe = {.data = work_.probabilities_.data(), .queries = queries, .stride = active.size()};
    }
    backend_.attend(q, text.kv_.rows(plan.layer),
                    attention_rows{{config_.n_heads, config_.n_kv_heads, config_.head_dim}, tokens, active, work_.slots_}, out, probe);
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

  /// Brings the evidence that the scorer asked for, and no other.
  evidence look(sequence<Backend>& text, const layer_plan& plan, evidence_kind kind, std::size_t queries) {
    const std::size_t heads = config_.n_heads, kv_size = config_.n_kv_heads * config_.head_dim, active = plan.active.size();
    const attention_view attention{work_.probabilities_.data(), heads, active, plan.active};
    const auto read_cache = [&](auto read) {
      text.kv_.slots(plan.layer, plan.active, work_.slots_);
      work_.values_.resize(active * kv_size);
      (backend_.*read)(text.kv_.rows(plan.layer), work_.slots_, work_.values_.data());
    };
    switch (kind) {
      case evidence_kind::none:
        return {};
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{work_.probabilities_.data(), queries, heads, active, plan.active};
      case evidence_kind::keys:
        read_cache(&Backend::read_keys);
        return key_view{work_.values_.data(), config_.n_kv_heads, config_.head_dim, kv_size, plan.active};
      case evidence_kind::values:
        read_cache(&Backend::read_values);
        return value_view{attention, work_.values_.data(), config_.n_kv_heads, config_.head_dim, kv_size};
      case evidence_kind::hidden: {
        work_.hidden_rows_.resize(plan.rows.size() * config_.hidden);
        backend_.read(work_.x_.view().slice(0, plan.rows.size()), work_.hidden_rows_.data());
        work_.values_.resize(work_.hidden_rows_.size());
        std::ranges::transform(work_.hidden_rows_, work_.values_.begin(), [](scalar value) { return static_cast<float>(value); });
        return hidden_view{work_.values_.data(), config_.hidden, config_.hidden, plan.rows, plan.active};
      }
    }
    return {};
  }

  /// The logits of the last layer's rows from `first` on, as many as `out` (rows, vocabulary) has room for.
  void read_logits(std::size_t first, std::span<scalar> out) {
    const std::size_t n = out.size() / config_.vocabulary;
    const rows x = work_.x_.view().slice(first, n), norm = room(work_.norm_, n), logits = room(work_.logits_rows_, n);
    backend_.rms_norm(x, weights_.norm, config_.rms_epsilon, norm);
    backend_.multiply(norm, work_.model().head(), nullptr, logits);
    backend_.read(logits, out.data());
  }

  /// Rows that are worked on at a time inside a layer, or as many as a scorer looks at; bounds the scratch.
  static constexpr std::size_t block_rows = 512;

  const model_config& config_;
  const model_weights<Backend>& weights_;
  Backend& backend_;
  workspace<Backend>& work_;
  step_observer* observer_;  // null: nobody looks
};

/// One step over new tokens of a sequence. Returns the logits (vocabulary) after the last one, valid until the workspace's next step;
/// nothing where the observer stopped the step. Throws `error` where the tokens are none of the model's, exceed its positions or the
/// session's room, or the sequence is of another model than the workspace, and then nothing has changed. Whatever is thrown later, and
/// where the step was stopped, the sequence refuses the next step until it is cleared.
template <tensor_backend Backend>
std::span<const typename Backend::scalar> forward(workspace<Backend>& work, sequence<Backend>& text, std::span<const token_id> tokens,
                                                  phase phase, step_observer* observer = nullptr) {
  return transformer<Backend>(work, observer).forward(text, tokens, phase);
}

/// How much each token tells: -log p(token | those before it) in nats, infinity for the first, which nothing comes before. One prefill
/// of a new sequence under a session that keeps everything, whose last layer finishes all rows. Throws as `forward` does, and where the
/// session has dropped tokens. Empty where the observer stopped the step.
template <tensor_backend Backend>
std::vector<double> self_information(workspace<Backend>& work, sequence<Backend>& text, std::span<const token_id> tokens,
                                     step_observer* observer = nullptr) {
  return transformer<Backend>(work, observer).self_information(text, tokens);
}

}  // namespace v0
}  // namespace lazyprune
