// SPDX-License-Identifier: MIT
// ggml computes one sequence, as a pruning session plans it. The layers from one pruning layer to the next become graphs. At a pruning
// layer, the engine reads one row of probabilities back from the device. It sends only indices to the device. All other data stays on the
// device: keys and values of each layer by position, the rows carried from graph to graph, the Aux Cache, and waiting rows.
#pragma once

#include <ggml-cpp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/session/trace.hpp>

#include "model.hpp"

namespace ggml_engine {

using lazyprune::evidence_kind;
using lazyprune::layer_id;
using lazyprune::position;
using lazyprune::token_id;
using origin = lazyprune::row_source::origin;

struct engine_options {
  std::size_t max_tokens;
  ggml_type kv_type = GGML_TYPE_F16;  // or F32
  bool flash_attention = true;
  std::size_t ubatch = 512;  // the most rows in one graph
};

namespace detail {

/// A graph with its inputs. It is computed once.
class graph {
 public:
  graph(ggml_backend_sched_t scheduler, std::size_t nodes, std::vector<std::uint8_t>& memory)
      : scheduler_(scheduler),
        context_(ggml_init({memory.size(), memory.data(), true})),
        nodes_(ggml_new_graph_custom(context_.get(), nodes, false)) {}

  /// Returns the bytes that a graph with this number of nodes needs, without the data of its tensors.
  static std::size_t memory_for(std::size_t nodes) { return nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false); }

  ggml_context* context() const { return context_.get(); }

  template <class T>
  ggml_tensor* input(ggml_type type, const std::vector<T>& numbers, std::size_t width) {
    const auto rows = static_cast<std::int64_t>(numbers.size() / width);
    ggml_tensor* const t = ggml_new_tensor_2d(context_.get(), type, static_cast<std::int64_t>(width), rows);
    ggml_set_input(t);
    std::vector<char> bytes(numbers.size() * sizeof(T));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    inputs_.emplace_back(t, std::move(bytes));
    return t;
  }
  ggml_tensor* indices(const std::vector<std::int32_t>& list) { return input(GGML_TYPE_I32, list, list.size()); }

  void expand(ggml_tensor* t) { ggml_build_forward_expand(nodes_, t); }
  ggml_tensor* output(ggml_tensor* t) {
    ggml_set_output(t);
    expand(t);
    return t;
  }

  void compute() {
    ggml_backend_sched_reset(scheduler_);
    if (!ggml_backend_sched_alloc_graph(scheduler_, nodes_))
      throw error("ggml", "", "memory for a graph", "too little", lazyprune::error_code::no_memory);
    for (const auto& [t, bytes] : inputs_)
      if (t->buffer) ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());  // an input that no node reads has no buffer
    if (const ggml_status status = ggml_backend_sched_graph_compute(scheduler_, nodes_); status != GGML_STATUS_SUCCESS)
      throw error("ggml", "", "a graph that can be computed", ggml_status_to_string(status), lazyprune::error_code::io);
  }

  static void read(const ggml_tensor* t, std::vector<float>& to) {
    to.resize(static_cast<std::size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, to.data(), 0, ggml_nbytes(t));
  }

 private:
  ggml_backend_sched_t scheduler_;
  ggml_context_ptr context_;
  ggml_cgraph* nodes_;
  std::vector<std::pair<ggml_tensor*, std::vector<char>>> inputs_;
};

/// A copy of a layer's plan. If a layer needs no evidence, the engine calls `leave` before it computes the layer's graph. The session's
/// plan is then gone.
struct planned_layer {
  explicit planned_layer(const lazyprune::layer_plan& plan)
      : layer(plan.layer),
        active(plan.active.begin(), plan.active.end()),
        rows(plan.rows.begin(), plan.rows.end()),
        sources(plan.sources.begin(), plan.sources.end()),
        output_rows(plan.output_rows) {}

  layer_id layer;
  std::vector<position> active, rows;
  std::vector<lazyprune::row_source> sources;
  std::size_t output_rows;
};

/// The rows of a layer that one graph computes.
struct row_range {
  std::size_t first, end, output_rows;  // the last `output_rows` rows need the layer's output; the others need only keys and values

  std::size_t count() const { return end - first; }
};

/// The inputs of a layer's attention. If consecutive layers of a graph have the same rows and active tokens, they share these inputs.
struct attention_inputs {
  std::span<const position> rows, seen;  // seen: the active tokens up to the last row
  std::size_t output_rows;
  ggml_tensor* positions;  // (rows): the cache rows to write, and the positions for RoPE
  ggml_tensor* gathered;   // (seen): the cache rows to read; null if they are the first rows of the cache, without gaps
  ggml_tensor* mask;       // (output_rows, seen); null if at most one row has an output: the last row sees all of `seen`
};

inline std::vector<std::int32_t> as_indices(std::span<const position> list) { return {list.begin(), list.end()}; }

/// Returns the last `rows` rows of a tensor (rows, width).
inline ggml_tensor* last_rows(ggml_context* c, ggml_tensor* t, std::size_t rows) {
  const auto n = static_cast<std::int64_t>(rows);
  return t->ne[1] == n ? t : ggml_view_2d(c, t, t->ne[0], n, t->nb[1], static_cast<std::size_t>(t->ne[1] - n) * t->nb[1]);
}

}  // namespace detail

class engine {
 public:
  /// The model and the devices must outlive this object. Throws `error` if there is not enough memory for options.max_tokens tokens.
  engine(const model& m, const devices& where, lazyprune::any_session session, const engine_options& options)
      : model_(m), options_(options), session_(std::move(session)), nodes_(1024 + 64 * m.layers.size()) {
    std::vector<ggml_backend_t> backends;
    for (const ggml_backend_ptr& b : where.backends) backends.push_back(b.get());
    scheduler_.reset(ggml_backend_sched_new(backends.data(), nullptr, static_cast<int>(backends.size()), nodes_, false, true));
    graph_memory_.resize(detail::graph::memory_for(nodes_));
    gathers_half_ = options.kv_type == GGML_TYPE_F16 && !attends_floats(where.main());

    const auto tokens = static_cast<std::int64_t>(options.max_tokens);
    cache_context_.reset(ggml_init({(2 * m.layers.size() + 4) * ggml_tensor_overhead(), nullptr, true}));
    const auto rows = [&](ggml_type type, std::int64_t width) { return ggml_new_tensor_2d(cache_context_.get(), type, width, tokens); };
    for (std::size_t l = 0; l < m.layers.size(); ++l) {
      keys_.push_back(rows(options.kv_type, m.kv_size()));
      values_.push_back(rows(options.kv_type, m.kv_size()));
    }
    for (ggml_tensor** t : {&carried_, &next_carried_, &aux_, &waiting_}) *t = rows(GGML_TYPE_F32, m.hidden);
    cache_.reset(ggml_backend_alloc_ctx_tensors_from_buft(cache_context_.get(), ggml_backend_dev_buffer_type(where.main())));
    if (!cache_)
      throw error("ggml", "", "memory for " + std::to_string(tokens) + " tokens", "too little", lazyprune::error_code::no_memory);
    ggml_backend_buffer_clear(cache_.get(), 0);
  }

  const lazyprune::any_session& session() const { return session_; }

  /// Reads tokens. Returns the logits (vocabulary) of the last one, which stay valid until the next step. If `chunk` is true, the
  /// tokens are a chunk of a prompt, and the result is empty. If `trace` is not null, adds to it what each layer saw and computed. If the
  /// step throws, the engine forgets the tokens.
  std::span<const float> step(std::span<const token_id> tokens, lazyprune::phase phase, bool chunk, lazyprune::step_trace* trace) {
    auto step = session_.begin({.tokens = tokens.size(), .phase = phase, .outputs = chunk ? std::size_t{0} : std::size_t{1}});
    ids_.insert(ids_.end(), tokens.begin(), tokens.end());
    logits_.clear();
    try {
      std::vector<detail::planned_layer> range;  // the layers to compute, with nothing to read back or to save between them
      for (layer_id layer = 0; layer < step.layers(); ++layer) {
        const lazyprune::layer_plan& plan = step.enter(layer);
        range.emplace_back(plan);
        if (trace) add_plan(trace->layers[layer], plan);
        const evidence_kind wanted = step.wants();
        if (wanted == evidence_kind::none) step.leave();
        if (wanted == evidence_kind::none && step.spills().empty() && layer + 1 < step.layers()) continue;

        compute(range, wanted, wanted == evidence_kind::window || wanted == evidence_kind::probes ? step.window() : 1);
        if (wanted != evidence_kind::none) step.leave(evidence_of(range.back(), wanted, step.probes()));
        if (trace && wanted == evidence_kind::attention) record_scores(trace->layers[layer].scores);
        save(step.spills());
        range.clear();
      }
      step.finish();
    } catch (...) {
      outputs_.clear();  // tensors of a graph that no longer exists
      session_.abandon();
      ids_.resize(session_.known());
      throw;
    }
    return logits_;
  }

  /// Forgets the tokens from `tokens` on.
  void truncate(std::size_t tokens) {
    session_.truncate(tokens);
    ids_.resize(tokens);
  }

 private:
  using graph = detail::graph;
  using planned_layer = detail::planned_layer;
  using attention_inputs = detail::attention_inputs;

  /// Flash attention on the CPU sums the values in half precision if it has fewer queries than this number. So the last layer computes the
  /// output of this many rows of a prompt, although only one row is needed. The logits then equal those of llama.cpp, which computes the
  /// attention of all rows. The extra time is too short to measure.
  static constexpr std::size_t least_finished = 64;

  /// Returns whether the device's flash attention takes keys and values in F32, the type that ggml_get_rows yields.
  bool attends_floats(ggml_backend_dev_t device) const {
    const ggml_context_ptr scratch(ggml_init({8 * ggml_tensor_overhead(), nullptr, true}));
    ggml_context* const c = scratch.get();
    const auto rows = [&](std::int64_t heads) { return ggml_new_tensor_3d(c, GGML_TYPE_F32, model_.head_dim, 512, heads); };
    ggml_tensor* const mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, 512, 512);
    return ggml_backend_dev_supports_op(
        device, ggml_flash_attn_ext(c, rows(model_.heads), rows(model_.kv_heads), rows(model_.kv_heads), mask, 1.0f, 0.0f, 0.0f));
  }

  /// Computes a range of layers, some rows at a time. Each graph takes the next positions, and computes their rows in all of these layers.
  /// A row does not see later rows, so the keys of its own graph and of earlier graphs suffice. The last graph yields the evidence that the
  /// policy wants, or the logits.
  void compute(const std::vector<planned_layer>& range, evidence_kind wanted, std::size_t queries) {
    const std::vector<position>& rows = range.back().rows;
    if (rows.empty()) return;  // a chunk whose tokens all wait for the next step
    const std::size_t most = std::max(options_.ubatch, queries);
    std::size_t graphs = (rows.size() + most - 1) / most;
    const auto size_of = [&](std::size_t n) { return (rows.size() + n - 1) / n; };  // of equal size, because each graph reads all weights
    while (graphs > 1 && size_of(graphs) < queries) --graphs;                       // the last graph has all queries that are shown
    const std::size_t size = size_of(graphs);
    std::vector<std::size_t> done(range.size(), 0);  // for each layer: how many of its rows are computed
    for (std::size_t g = 0; g < graphs; ++g) {
      const bool last = g + 1 == graphs;
      const std::size_t count = rows.size() - (graphs - 1 - g) * size;  // rows of the last layer that are done after this graph
      const position bound = last ? std::numeric_limits<position>::max() : rows[count - 1];
      graph nodes(scheduler_.get(), nodes_, graph_memory_);
      attention_inputs in{};
      ggml_tensor* x = nullptr;
      std::size_t first_carried = 0;  // the index of x's first row among the rows of its layer
      for (std::size_t i = 0; i < range.size(); ++i) {
        const planned_layer& plan = range[i];
        const auto end = static_cast<std::size_t>(std::ranges::upper_bound(plan.rows, bound) - plan.rows.begin());
        const std::size_t output_rows = plan.output_rows > 0 ? std::min(plan.rows.size(), std::max(plan.output_rows, least_finished)) : 0;
        const detail::row_range slice{done[i], end, end - std::clamp(plan.rows.size() - output_rows, done[i], end)};
        done[i] = end;
        x = slice.count() == 0 ? nullptr : gather(nodes, plan, slice, i == 0 ? nullptr : x, i == 0 ? 0 : first_carried);
        first_carried = slice.first;
        if (!x) continue;
        share_inputs(nodes, plan, slice, in);
        const bool shows = last && i + 1 == range.size();
        x = layer(nodes, plan.layer, x, in, shows ? wanted : evidence_kind::none, queries);
      }
      if (range.back().layer + 1u == model_.layers.size()) {
        if (x) logits_of(nodes, x);
      } else if (x) {
        ggml_context* const c = nodes.context();
        nodes.expand(
            ggml_cpy(c, x, ggml_view_2d(c, next_carried_, x->ne[0], x->ne[1], next_carried_->nb[1], first_carried * next_carried_->nb[1])));
      }
      nodes.compute();
      if (last) read_outputs();
    }
    std::swap(carried_, next_carried_);
  }

  /// Gathers the inputs (rows, hidden) of these rows. `x` has the output of the previous layer, from that layer's row `first` on. If `x` is
  /// null, this output is in `carried_`, because the previous range wrote it there.
  ggml_tensor* gather(graph& nodes, const planned_layer& plan, const detail::row_range& slice, ggml_tensor* x, std::size_t first) {
    ggml_context* const c = nodes.context();
    ggml_tensor* const carried = x ? x : carried_;
    std::array<std::vector<std::int32_t>, 4> wanted;  // for each origin: the rows to read from its table
    const std::span<const lazyprune::row_source> sources = std::span(plan.sources).subspan(slice.first, slice.count());
    for (const auto [from, index] : sources)
      wanted[static_cast<std::size_t>(from)].push_back(static_cast<std::int32_t>(from == origin::embedding ? ids_[index]
                                                                                 : from == origin::carried ? index - first
                                                                                                           : index));
    const std::array<ggml_tensor*, 4> tables{model_.embedding, carried, aux_, waiting_};
    const bool all_of_x = x && wanted[static_cast<std::size_t>(origin::carried)].size() == slice.count() &&
                          x->ne[1] == static_cast<std::int64_t>(slice.count());
    if (all_of_x) return x;

    ggml_tensor* rows = nullptr;  // the rows gathered so far, one origin after the other
    std::array<std::int32_t, 4> next{};
    for (std::size_t from = 0; from < tables.size(); ++from) {
      if (wanted[from].empty()) continue;
      ggml_tensor* const found = ggml_get_rows(c, tables[from], nodes.indices(wanted[from]));
      next[from] = rows ? static_cast<std::int32_t>(rows->ne[1]) : 0;
      rows = rows ? ggml_concat(c, rows, found, 1) : found;
      if (wanted[from].size() == slice.count()) return rows;
    }
    std::vector<std::int32_t> order;  // restores the ascending order of positions
    for (const auto& source : sources) order.push_back(next[static_cast<std::size_t>(source.from)]++);
    return ggml_get_rows(c, rows, nodes.indices(order));
  }

  /// Makes the inputs of a layer's attention, unless the inputs of the previous layer are the same.
  void share_inputs(graph& nodes, const planned_layer& plan, const detail::row_range& slice, attention_inputs& in) const {
    const std::span<const position> rows = std::span(plan.rows).subspan(slice.first, slice.count());
    const auto seen_end = std::ranges::upper_bound(plan.active, rows.back());
    const std::span<const position> seen(plan.active.begin(), seen_end);
    if (in.positions && in.output_rows == slice.output_rows && std::ranges::equal(in.rows, rows) && std::ranges::equal(in.seen, seen))
      return;
    in = {.rows = rows,
          .seen = seen,
          .output_rows = slice.output_rows,
          .positions = nodes.indices(detail::as_indices(rows)),
          .gathered = nullptr,
          .mask = nullptr};
    if (seen.back() + 1 != seen.size()) in.gathered = nodes.indices(detail::as_indices(seen));
    if (slice.output_rows < 2) return;  // the last row sees all tokens in `seen`, so it needs no mask
    const ggml_fp16_t zero = ggml_fp32_to_fp16(0.0f), never = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
    std::vector<ggml_fp16_t> mask(slice.output_rows * seen.size(), never);
    for (std::size_t r = 0; r < slice.output_rows; ++r) {
      const auto before = std::ranges::upper_bound(seen, rows[rows.size() - slice.output_rows + r]) - seen.begin();
      std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(r * seen.size()), before, zero);
    }
    in.mask = nodes.input(GGML_TYPE_F16, mask, seen.size());
  }

  ggml_tensor* norm(ggml_context* c, ggml_tensor* x, ggml_tensor* weight) const {
    return ggml_mul(c, ggml_rms_norm(c, x, model_.epsilon), weight);
  }

  /// Returns x as (rows, heads, head_dim), after RoPE with the positions in the text.
  ggml_tensor* rotate(ggml_context* c, ggml_tensor* x, std::int64_t heads, ggml_tensor* positions) const {
    x = ggml_reshape_3d(c, x, model_.head_dim, heads, x->ne[1]);
    return ggml_rope_ext(c, x, positions, model_.rope_divisors, static_cast<int>(model_.head_dim), GGML_ROPE_TYPE_NORMAL, 0,
                         model_.rope_base, model_.rope_scale, 0.0f, 1.0f, 32.0f, 1.0f);
  }

  /// Returns the keys or values (seen, kv_heads, head_dim) of the tokens in `in.seen`.
  ggml_tensor* cached(ggml_context* c, ggml_tensor* cache, const attention_inputs& in, bool as_float) const {
    const auto seen = static_cast<std::int64_t>(in.seen.size());
    ggml_tensor* rows = in.gathered ? ggml_get_rows(c, cache, in.gathered) : ggml_view_2d(c, cache, cache->ne[0], seen, cache->nb[1], 0);
    if (as_float && rows->type != GGML_TYPE_F32) rows = ggml_cast(c, rows, GGML_TYPE_F32);
    if (!as_float && in.gathered && gathers_half_) rows = ggml_cast(c, rows, GGML_TYPE_F16);
    return ggml_reshape_3d(c, rows, model_.head_dim, model_.kv_heads, seen);
  }

  /// Computes one layer: keys and values of all rows, and the output of the last ones. Returns the output (output_rows, hidden), or null if
  /// output_rows is 0.
  ggml_tensor* layer(graph& nodes, layer_id l, ggml_tensor* x, const attention_inputs& in, evidence_kind wanted, std::size_t queries) {
    ggml_context* const c = nodes.context();
    const layer_weights& w = model_.layers[l];
    ggml_tensor* const normed = norm(c, x, w.attention_norm);
    ggml_tensor* const k = rotate(c, ggml_mul_mat(c, w.k, normed), model_.kv_heads, in.positions);
    ggml_tensor* const v = ggml_mul_mat(c, w.v, normed);
    nodes.expand(ggml_set_rows(c, keys_[l], ggml_reshape_2d(c, k, model_.kv_size(), k->ne[2]), in.positions));
    nodes.expand(ggml_set_rows(c, values_[l], v, in.positions));
    if (in.output_rows == 0) return nullptr;

    const std::size_t unfinished = in.rows.size() - in.output_rows;
    ggml_tensor* const finished =
        ggml_view_1d(c, in.positions, static_cast<std::int64_t>(in.output_rows), unfinished * sizeof(std::int32_t));
    ggml_tensor* const q = rotate(c, ggml_mul_mat(c, w.q, detail::last_rows(c, normed, in.output_rows)), model_.heads, finished);
    if (wanted != evidence_kind::none) show(nodes, l, q, in, wanted, queries);
    x = ggml_add(c, ggml_mul_mat(c, w.output, attend(c, l, q, in)), detail::last_rows(c, x, in.output_rows));
    ggml_tensor* const middle = norm(c, x, w.feed_forward_norm);
    ggml_tensor* const gated = ggml_swiglu_split(c, ggml_mul_mat(c, w.gate, middle), ggml_mul_mat(c, w.up, middle));
    return ggml_add(c, ggml_mul_mat(c, w.down, gated), x);
  }

  float attention_scale() const { return 1.0f / std::sqrt(static_cast<float>(model_.head_dim)); }

  /// Returns the attended values (output_rows, heads * head_dim), with the same operations as llama.cpp's build_attn_mha.
  ggml_tensor* attend(ggml_context* c, layer_id l, ggml_tensor* q, const attention_inputs& in) const {
    const std::int64_t width = model_.heads * model_.head_dim, rows = q->ne[2];
    q = ggml_permute(c, q, 0, 2, 1, 3);
    ggml_tensor* const k = ggml_permute(c, cached(c, keys_[l], in, false), 0, 2, 1, 3);
    ggml_tensor* const v = ggml_permute(c, cached(c, values_[l], in, false), 0, 2, 1, 3);
    if (options_.flash_attention) {
      ggml_tensor* const attended = ggml_flash_attn_ext(c, q, k, v, in.mask, attention_scale(), 0.0f, 0.0f);
      ggml_prec_set_acc(attended, GGML_PREC_F32);
      return ggml_reshape_2d(c, attended, width, rows);
    }
    ggml_tensor* const scores = ggml_mul_mat(c, k, q);
    ggml_prec_set_acc(scores, GGML_PREC_F32);
    ggml_tensor* const weights = ggml_soft_max_ext(c, scores, in.mask, attention_scale(), 0.0f);
    ggml_tensor* const attended = ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, v)), weights);
    return ggml_cont_2d(c, ggml_permute(c, attended, 0, 2, 1, 3), width, rows);
  }

  /// Adds the evidence that the policy wants to the graph's outputs. Probabilities need one more product, since flash attention does not
  /// yield them.
  void show(graph& nodes, layer_id l, ggml_tensor* q, const attention_inputs& in, evidence_kind wanted, std::size_t queries) {
    ggml_context* const c = nodes.context();
    if (wanted == evidence_kind::attention || wanted == evidence_kind::window || wanted == evidence_kind::values ||
        wanted == evidence_kind::probes) {
      const auto n = static_cast<std::int64_t>(queries);
      ggml_tensor* const last =
          ggml_view_3d(c, q, q->ne[0], q->ne[1], n, q->nb[1], q->nb[2], static_cast<std::size_t>(q->ne[2] - n) * q->nb[2]);
      ggml_tensor* const k = ggml_permute(c, cached(c, keys_[l], in, true), 0, 2, 1, 3);
      ggml_tensor* const scores = ggml_mul_mat(c, k, ggml_permute(c, last, 0, 2, 1, 3));
      ggml_prec_set_acc(scores, GGML_PREC_F32);
      ggml_tensor* const mask = n > 1 ? detail::last_rows(c, in.mask, queries) : nullptr;
      ggml_tensor* const weights = ggml_soft_max_ext(c, scores, mask, attention_scale(), 0.0f);
      outputs_.emplace_back(nodes.output(ggml_cont(c, ggml_permute(c, weights, 0, 2, 1, 3))), &shown_);
    }
    if (wanted == evidence_kind::keys || wanted == evidence_kind::values) {
      ggml_tensor* const of = wanted == evidence_kind::keys ? keys_[l] : values_[l];
      outputs_.emplace_back(nodes.output(ggml_cont(c, cached(c, of, in, true))), &shown_cache_);
    }
  }

  void logits_of(graph& nodes, ggml_tensor* x) {
    ggml_context* const c = nodes.context();
    ggml_tensor* const last = detail::last_rows(c, x, 1);
    outputs_.emplace_back(nodes.output(ggml_mul_mat(c, model_.head, norm(c, last, model_.norm))), &logits_);
  }

  void read_outputs() {
    for (const auto& [t, to] : outputs_) graph::read(t, *to);
    outputs_.clear();
  }

  /// Returns a view of the evidence that was read back from the device. The host reduces the probabilities to the rows of the probes.
  lazyprune::evidence evidence_of(const planned_layer& plan, evidence_kind wanted, std::span<const lazyprune::head_probe> probes) {
    const auto heads = static_cast<std::size_t>(model_.heads), kv_heads = static_cast<std::size_t>(model_.kv_heads);
    const auto head_dim = static_cast<std::size_t>(model_.head_dim), hidden = static_cast<std::size_t>(model_.hidden);
    const std::size_t active = plan.active.size(), kv_size = kv_heads * head_dim;
    const lazyprune::attention_view attention{shown_.data(), heads, active, plan.active};
    switch (wanted) {
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return lazyprune::window_view{shown_.data(), shown_.size() / (heads * active), heads, active, plan.active};
      case evidence_kind::keys:
        return lazyprune::key_view{shown_cache_.data(), kv_heads, head_dim, kv_size, plan.active};
      case evidence_kind::values:
        return lazyprune::value_view{attention, shown_cache_.data(), kv_heads, head_dim, kv_size};
      case evidence_kind::hidden:
        shown_.resize(plan.rows.size() * hidden);
        ggml_backend_tensor_get(carried_, shown_.data(), 0, shown_.size() * sizeof(float));
        return lazyprune::hidden_view{shown_.data(), hidden, hidden, plan.rows, plan.active};
      case evidence_kind::ids:
        return lazyprune::id_view{ids_, plan.active};
      case evidence_kind::probes:
        probed_.resize(probes.size() * active);
        for (std::size_t p = 0; p < probes.size(); ++p) {
          if (probes[p].head >= heads)
            throw error("ggml", "probe of layer " + std::to_string(plan.layer), "a head below " + std::to_string(heads),
                        std::to_string(probes[p].head));
          lazyprune::reduce_queries(shown_.data() + probes[p].head * active, shown_.size() / (heads * active), heads * active,
                                    probes[p].over, {&probed_[p * active], active});
        }
        return lazyprune::probe_view{probed_.data(), probes.size(), active, plan.active};
      case evidence_kind::none:
        break;
    }
    return {};
  }

  /// Saves the rows that the session asks for: rows that are dropped, rows that will wait, and rows that waited and are now dropped.
  void save(std::span<const lazyprune::spill> spills) {
    if (spills.empty()) return;
    graph nodes(scheduler_.get(), nodes_, graph_memory_);
    ggml_context* const c = nodes.context();
    for (const origin from : {origin::carried, origin::waiting})
      for (const origin to : {origin::stored, origin::waiting}) {
        std::vector<std::int32_t> rows, slots;
        for (const lazyprune::spill& s : spills) {
          if (s.from != from || s.to != to) continue;
          rows.push_back(static_cast<std::int32_t>(s.row));
          slots.push_back(static_cast<std::int32_t>(s.slot));
        }
        if (rows.empty()) continue;
        ggml_tensor* const saved = ggml_get_rows(c, from == origin::waiting ? waiting_ : carried_, nodes.indices(rows));
        nodes.expand(ggml_set_rows(c, to == origin::waiting ? waiting_ : aux_, saved, nodes.indices(slots)));
      }
    nodes.compute();
  }

  /// Writes the scores of last_query_attention to `scores`: the mean of the shown attention over the heads.
  void record_scores(std::vector<float>& scores) const {
    const auto heads = static_cast<std::size_t>(model_.heads);
    const std::size_t active = shown_.size() / heads;
    scores.assign(active, 0.0f);
    for (std::size_t i = 0; i < shown_.size(); ++i) scores[i % active] += shown_[i] / static_cast<float>(heads);
  }

  const model& model_;
  engine_options options_;
  lazyprune::any_session session_;
  std::vector<token_id> ids_;  // (known)

  std::size_t nodes_;          // the most nodes of a graph
  bool gathers_half_ = false;  // whether gathered rows of an F16 cache are cast from F32 back to F16
  ggml_backend_sched_ptr scheduler_;
  std::vector<std::uint8_t> graph_memory_;
  ggml_context_ptr cache_context_;
  ggml_backend_buffer_ptr cache_;
  std::vector<ggml_tensor*> keys_, values_;  // by layer: (max_tokens, kv_heads * head_dim); row t belongs to token t
  ggml_tensor *carried_, *next_carried_;     // (max_tokens, hidden): the output of the layer before a range, and of the range's last layer
  ggml_tensor *aux_, *waiting_;              // (max_tokens, hidden): by slot
  std::vector<std::pair<ggml_tensor*, std::vector<float>*>> outputs_;  // outputs of the current graph, and the arrays to read them into
  std::vector<float> shown_, shown_cache_, logits_;
  std::vector<float> probed_;  // (probes, active): reduced from `shown_`
};

}  // namespace ggml_engine
