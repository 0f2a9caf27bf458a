// SPDX-License-Identifier: MIT
// Measures steps with few rows, in two ways.
//
// step_over_its_parts shows what a step costs in addition to its arithmetic. The model has the shape of the bundled model, whose layers are
// small. The policy keeps all tokens. A step reads 1 to 64 tokens after a context of 256 tokens. The operations of the step are also timed
// alone, on one thread, layer after layer. `ratio` is the step's shortest time over the sum of the operations' times. On one thread, the
// part of `ratio` above 1 is the work between the operations, and the cache misses that an operation does not have when it is timed alone.
// With more threads, `ratio` should be lower, never higher.
//
// step_over_its_bound takes models whose weights do not fit into a cache, in bf16 or in a quantized type. A step takes at least as long as
// reading its weights
// (`memory_ms`). It also takes at least as long as the arithmetic of its layers, and then reading the weights of the logits (`compute_ms`).
// The rates for these two times are the best that were measured before and after the steps. `ratio` is the shortest time of a step over
// the larger of the two. It takes about 5 GB of memory.
#include <benchmark/benchmark.h>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/files/ggml_rows.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/cost_model.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/model/transformer.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/cpu_peaks.hpp"

namespace {

using namespace lazyprune;

constexpr std::size_t repetitions = 200;

/// Returns the shortest time of `times` repetitions. The shortest is the best estimate, because other work on the machine only adds time.
template <class Work>
double least_seconds(std::size_t times, Work&& work) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

/// Times the operations of a step of `rows` tokens after a context, one kind at a time.
class parts {
 public:
  parts(const model<cpu>& m, cpu& backend, std::size_t context, std::size_t rows)
      : m_(m), c_(m.config), backend_(backend), rope_(m.rope().reach(backend, context + rows)), positions_(context + rows) {
    std::iota(positions_.begin(), positions_.end(), position{0});
    tokens_ = std::span(positions_).subspan(context);
    const std::size_t q_size = c_.n_heads * c_.head_dim, kv_size = c_.n_kv_heads * c_.head_dim;
    for (const std::size_t columns : {c_.hidden, q_size, kv_size, kv_size, c_.vocabulary}) {
      buffers_.emplace_back(columns).reserve(std::max(context, rows));
      const rows_view<float> all = buffers_.back().view();
      std::fill_n(all.data, all.rows * all.columns, 0.01f);
    }
    for (std::size_t l = 0; l < c_.layers; ++l) {
      kv_.emplace_back(c_.n_kv_heads, c_.head_dim);
      backend_.put(kv_.back(), std::span(positions_).first(context), buffers_[k].view().slice(0, context),
                   buffers_[v].view().slice(0, context));
      backend_.put(kv_.back(), tokens_, of(k), of(v));
    }
  }

  double products() {
    operand(norm_, of(x), m_.weights.layers[0].q);
    double seconds = each([&](const auto& w) { backend_.multiply(norm_, w.k, nullptr, of(k)); });
    seconds += each([&](const auto& w) { backend_.multiply(norm_, w.v, nullptr, of(v)); });
    seconds += each([&](const auto& w) { backend_.multiply(norm_, w.q, nullptr, of(q)); });
    operand(attended_, of(q), m_.weights.layers[0].o);
    seconds += each([&](const auto& w) { backend_.multiply_add(attended_, w.o, nullptr, of(x)); });
    seconds += each([&](const auto& w) {
      backend_.prepare(ffn_, tokens_.size(), w.down);
      backend_.gated_multiply(norm_, w.gate_up, nullptr, lazyprune::gate_activation::silu, ffn_);
    });
    seconds += each([&](const auto& w) { backend_.multiply_add(ffn_, w.down, nullptr, of(x)); });
    operand(norm_, last(x), m_.head());
    return seconds + least_seconds(repetitions, [&] { backend_.multiply(norm_, m_.head(), nullptr, last(logits)); });
  }
  double attention() {
    std::size_t layer = 0;
    return each([&](const auto& w) {
      backend_.prepare(attended_, tokens_.size(), w.o);
      backend_.attend(of(q), kv_[layer++ % c_.layers], {{c_.n_heads, c_.n_kv_heads, c_.head_dim}, tokens_, positions_, positions_},
                      attended_, 0, {});
    });
  }
  double norms_and_rotations() {
    double seconds = 2 * each([&](const auto& w) {
                       backend_.prepare(norm_, tokens_.size(), w.q);
                       backend_.rms_norm(of(x), w.attention_norm, c_.rms_epsilon, norm_);
                     });
    seconds += each([&](const auto&) { backend_.rotate(of(q), c_.head_dim, tokens_, rope_->values); });
    return seconds + each([&](const auto&) { backend_.rotate(of(k), c_.head_dim, tokens_, rope_->values); });
  }
  /// Returns the seconds to write the new keys, values and embeddings.
  double writing() {
    double seconds = 0;
    for (std::size_t l = 0; l < c_.layers; ++l)
      seconds += least_seconds(repetitions / 10, [&] { backend_.put(kv_[l], tokens_, of(k), of(v)); });
    return seconds + least_seconds(repetitions, [&] { backend_.embed(m_.weights.embedding, tokens_, 1.0, of(x)); });
  }

 private:
  enum which : std::size_t { x, q, k, v, logits };

  rows_view<float> of(which buffer) { return buffers_[buffer].view().slice(0, tokens_.size()); }
  rows_view<float> last(which buffer) { return buffers_[buffer].view().slice(0, 1); }

  void operand(cpu::operand& to, rows_view<const float> rows, const cpu::matrix& w) {
    backend_.prepare(to, rows.rows, w);
    backend_.pack_rows(rows, to);
  }

  /// Returns the seconds of one operation, summed over all layers.
  template <class Work>
  double each(Work&& work) {
    return least_seconds(repetitions, [&] {
      for (const layer_weights<cpu>& w : m_.weights.layers) work(w);
    });
  }

  const model<cpu>& m_;
  const model_config& c_;
  cpu& backend_;
  std::shared_ptr<const rotary_table<cpu>::table> rope_;
  std::vector<position> positions_;   // 0, 1, ...; also used as slots, because the token at position p is in slot p
  std::span<const position> tokens_;  // the tokens of the step
  std::vector<cpu::buffer> buffers_;
  cpu::operand norm_{c_.hidden}, attended_{c_.n_heads * c_.head_dim}, ffn_{c_.ffn};
  std::vector<cpu::kv_layer> kv_;
};

void step_over_its_parts(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t context = 256;
  const model_config config = shape_named("pocket");
  cpu backend({.threads = static_cast<int>(state.range(1)), .kv = dtype::bf16}), one_thread({.threads = 1, .kv = dtype::bf16});
  const model<cpu> m = load_model(backend, config, random_source(config, dtype::bf16));
  std::vector<token_id> ids(context);
  for (std::size_t i = 0; i < context; ++i) ids[i] = static_cast<token_id>(mix(0, i) % config.vocabulary);

  workspace<cpu> work(m, backend);
  sequence<cpu> text(m, any_session(dense(), {.layers = static_cast<layer_id>(config.layers), .max_tokens = config.max_positions}));
  work.reserve(config.max_positions);
  double step = std::numeric_limits<double>::infinity(), products = step, attention = step, norms = step, writing = step;
  std::size_t turn = 0;
  for (auto _ : state) {
    // Every step makes the context longer. Therefore the sequence starts again after four steps.
    text.clear();
    forward(work, text, ids, phase::prefill);
    step = std::min(step, least_seconds(4, [&] { forward(work, text, std::span(ids).first(rows), phase::decode); }));
    if (++turn % 10 > 1) continue;
    parts alone(m, one_thread, context, rows);
    products = std::min(products, alone.products());
    attention = std::min(attention, alone.attention());
    norms = std::min(norms, alone.norms_and_rotations());
    writing = std::min(writing, alone.writing());
  }
  const double sum = products + attention + norms + writing;
  state.counters["step_us"] = 1e6 * step;
  state.counters["parts_us"] = 1e6 * sum;
  state.counters["ratio"] = step / sum;
  state.counters["products_us"] = 1e6 * products;
  state.counters["attention_us"] = 1e6 * attention;
  state.counters["norms_us"] = 1e6 * norms;
  state.counters["writing_us"] = 1e6 * writing;
}

BENCHMARK(step_over_its_parts)
    ->ArgNames({"rows", "threads"})
    ->ArgsProduct({{1, 2, 4, 8, 16, 32, 64}, {1, 2}})
    ->Iterations(40)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// A tensor_source whose matrices have blocks of a quantized type. All blocks are equal, because speed does not depend on them.
class block_source {
 public:
  block_source(const model_config& config, const ggml_type& type)
      : norms_(config, dtype::bf16),
        rows_(type, 0, true),
        blocks_(config.vocabulary * config.hidden / type.values * type.bytes, std::byte{0x11}) {}

  bool contains(std::string_view name) const { return norms_.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    if (name.ends_with("norm.weight")) return norms_.get(name, rows, columns);
    return {dtype::bf16, rows, columns, blocks_.data(), &rows_};  // no matrix is larger than the embeddings
  }

 private:
  random_source norms_;
  ggml_rows rows_;
  std::vector<std::byte> blocks_;
};

/// Returns a model whose weights take more memory than caches have. It is valid until the next call.
const model<cpu>& large_model(const ggml_type& type) {
  static const ggml_type* loaded = nullptr;
  static std::optional<model<cpu>> m;
  if (loaded != &type) {
    const model_config config = shape_named("tinyllama-1.1b");
    cpu backend;
    m.reset();
    if (type.format)
      m.emplace(load_model(backend, config, block_source(config, type)));
    else
      m.emplace(load_model(backend, config, random_source(config, dtype::bf16)));
    loaded = &type;
  }
  return *m;
}

void step_over_its_bound(benchmark::State& state, std::string_view type) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto threads = static_cast<int>(state.range(1));
  constexpr std::size_t context = 64;
  const model<cpu>& m = large_model(*ggml_type_of(type));
  const model_config& c = m.config;
  cpu backend({.threads = threads, .kv = dtype::bf16});
  const program::cpu_peaks here(threads);
  double reading = 0, arithmetic = 0;
  const auto look_for_peaks = [&] {
    reading = std::max(reading, here.reading(program::cpu_peaks::beyond_caches()));
    const kernels::product_kernel& kernel = backend.kernel_for(m.head());
    arithmetic = std::max(arithmetic, kernel.int8 ? here.byte_arithmetic(kernel) : here.arithmetic(backend.instructions(), dtype::bf16));
  };
  look_for_peaks();

  std::vector<token_id> ids(context);
  for (std::size_t i = 0; i < context; ++i) ids[i] = static_cast<token_id>(mix(0, i) % c.vocabulary);
  workspace<cpu> work(m, backend);
  sequence<cpu> text(m, any_session(dense(), {.layers = static_cast<layer_id>(c.layers), .max_tokens = c.max_positions}));
  work.reserve(c.max_positions);
  double step = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    text.clear();
    forward(work, text, ids, phase::prefill);
    step = std::min(step, least_seconds(4, [&] {
                      if (forward(work, sequence_step<cpu>{text, std::span(ids).first(rows), phase::decode, rows}))
                        benchmark::DoNotOptimize(read_logits(work, rows - 1));
                    }));
  }
  look_for_peaks();

  const auto layers = [&](std::size_t n) {  // operations of the layers' products for n rows
    return static_cast<double>(c.layers) * cost_model{}.step_layer(c, {.rows = n, .outputs = n});
  };
  // The bytes of a weight, for each of its two operations in a product of one row. The logits of one row wait for their weights.
  const double bytes = static_cast<double>(m.head().bytes()) / cost_model{}.logits(c), logits = cost_model{}.logits(c) * bytes / reading;
  const double memory = layers(1) * bytes / reading + logits, compute = layers(rows) / arithmetic + logits;
  state.counters["step_ms"] = 1e3 * step;
  state.counters["memory_ms"] = 1e3 * memory;
  state.counters["compute_ms"] = 1e3 * compute;
  state.counters["ratio"] = step / std::max(memory, compute);
}

void few_rows(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "threads"})->ArgsProduct({{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64}, {1, 2}});
  b->Iterations(4)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(step_over_its_bound, BF16, "BF16")->Apply(few_rows);
BENCHMARK_CAPTURE(step_over_its_bound, Q8_0, "Q8_0")->Apply(few_rows);
BENCHMARK_CAPTURE(step_over_its_bound, Q4_0, "Q4_0")->Apply(few_rows);
BENCHMARK_CAPTURE(step_over_its_bound, Q4_K, "Q4_K")->Apply(few_rows);
BENCHMARK_CAPTURE(step_over_its_bound, Q6_K, "Q6_K")->Apply(few_rows);

}  // namespace

BENCHMARK_MAIN();
