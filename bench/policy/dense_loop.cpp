// SPDX-License-Identifier: MIT
// Measures the cost of running the dense model through a session. The model has four layers of TinyLlama-1.1B's width and reads 256 tokens.
// One side is the transformer under a policy that keeps everything. The other side runs the same backend operations in a plain loop. The
// two sides run in turn, and take turns to go first. Their logits must have the same bits. `ratio` is the median time of the session
// divided by that of the loop.
#include <benchmark/benchmark.h>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/model/transformer.hpp>

#include <numeric>
#include <vector>

#include "../measure.hpp"

namespace {

using namespace lazyprune;

constexpr std::size_t tokens = 256;

model_config four_layers() {
  model_config config = shape_named("tinyllama-1.1b");
  config.layers = 4;
  return config;
}

/// A prefill without a session. As in the transformer, the last layer computes only the last row to the end.
class plain_loop {
 public:
  plain_loop(const model<cpu>& m, cpu& backend)
      : model_(m),
        c_(m.config),
        backend_(backend),
        rope_(backend.make_rope(frequencies_of(c_.rope, c_.head_dim).radians, frequencies_of(c_.rope, c_.head_dim).scale, tokens)),
        x_(c_.hidden),
        q_(c_.n_heads * c_.head_dim),
        k_(c_.n_kv_heads * c_.head_dim),
        v_(c_.n_kv_heads * c_.head_dim),
        logits_(c_.vocabulary),
        norm_(c_.hidden),
        attended_(c_.n_heads * c_.head_dim),
        ffn_(c_.ffn),
        positions_(tokens) {
    std::iota(positions_.begin(), positions_.end(), position{0});
    for (cpu::buffer* buffer : {&x_, &q_, &k_, &v_}) buffer->reserve(tokens);
    logits_.reserve(1);
    for (const dtype type : model_.kv_types()) kv_.emplace_back(c_.n_kv_heads, c_.head_dim, type);  // the same types as in a sequence
  }

  /// Returns the logits of the token after the last one (vocabulary).
  std::span<const float> forward(std::span<const token_id> ids) {
    in_one_team(backend_, [&] {
      backend_.embed(model_.weights.embedding, ids, 1.0, x_.view());
      for (std::size_t l = 0; l < c_.layers; ++l) layer(model_.weights.layers[l], kv_[l], l + 1 == c_.layers ? 1 : tokens);
      norm(x_.view().slice(tokens - 1, 1), model_.weights.norm, model_.head());
      backend_.multiply(norm_, model_.head(), nullptr, logits_.view());
    });
    return {logits_.view().data, c_.vocabulary};
  }

 private:
  void norm(rows_view<const float> x, const cpu::parameters& weight, const cpu::matrix& next) {
    backend_.prepare(norm_, x.rows, next);
    backend_.rms_norm(x, weight, c_.rms_epsilon, norm_);
  }

  void layer(const layer_weights<cpu>& w, cpu::kv_layer& kv, std::size_t finish) {
    norm(x_.view(), w.attention_norm, w.q);
    backend_.multiply(norm_, w.k, nullptr, k_.view());
    backend_.multiply(norm_, w.v, nullptr, v_.view());
    backend_.rotate(k_.view(), c_.head_dim, positions_, rope_);
    kv.truncate(0);
    backend_.put(kv, positions_, k_.view(), v_.view());

    const auto last = [&](cpu::buffer& buffer) { return buffer.view().slice(tokens - finish, finish); };
    const std::span<const position> rows = std::span(positions_).last(finish);
    const rows_view<float> x = last(x_), q = last(q_);
    if (finish < tokens) norm(x, w.attention_norm, w.q);
    backend_.multiply(norm_, w.q, nullptr, q);
    backend_.rotate(q, c_.head_dim, rows, rope_);
    backend_.prepare(attended_, finish, w.o);
    backend_.attend(q, kv, {{c_.n_heads, c_.n_kv_heads, c_.head_dim}, rows, positions_, positions_}, attended_, 0, {});
    backend_.multiply_add(attended_, w.o, nullptr, x);
    norm(x, w.ffn_norm, w.gate_up);
    backend_.prepare(ffn_, finish, w.down);
    backend_.gated_multiply(norm_, w.gate_up, nullptr, lazyprune::gate_activation::silu, ffn_);
    backend_.multiply_add(ffn_, w.down, nullptr, x);
  }

  const model<cpu>& model_;
  const model_config& c_;
  cpu& backend_;
  cpu::rope_table rope_;
  std::vector<cpu::kv_layer> kv_;
  cpu::buffer x_, q_, k_, v_, logits_;
  cpu::operand norm_, attended_, ffn_;
  std::vector<position> positions_;  // 0, 1, ...; also used as slots, because the token at position p is in slot p
};

void dense_session_over_plain_loop(benchmark::State& state) {
  const model_config config = four_layers();
  const dtype type = state.range(0) == 16 ? dtype::bf16 : dtype::f32;
  cpu backend({.threads = static_cast<int>(state.range(1))});
  const model<cpu> m = load_model(backend, config, random_source(config, type));
  std::vector<token_id> ids(tokens);
  for (std::size_t i = 0; i < tokens; ++i) ids[i] = static_cast<token_id>(mix(0, i) % config.vocabulary);

  plain_loop loop(m, backend);
  sequence<cpu> text(m, any_session(dense(), {.layers = static_cast<layer_id>(config.layers), .max_tokens = tokens}));
  workspace<cpu> work(m, backend);
  work.reserve(tokens);

  const auto through_session = [&] {
    text.clear();
    return forward(work, text, ids, phase::prefill);
  };
  const auto plainly = [&] { return loop.forward(ids); };

  if (!std::ranges::equal(through_session(), plainly())) return state.SkipWithError("the logits differ");
  const auto [session, without] = bench::times_in_turn(state, through_session, plainly);
  state.counters["session_ms"] = 1e3 * session;
  state.counters["loop_ms"] = 1e3 * without;
  state.counters["ratio"] = session / without;
}

BENCHMARK(dense_session_over_plain_loop)
    ->ArgNames({"bits", "threads"})
    ->ArgsProduct({{16, 32}, {1, 2}})
    ->Iterations(21)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
