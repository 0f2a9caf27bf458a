// SPDX-License-Identifier: MIT
// Measures the cost of the probes of a calibration. The model has the shape of SmolLM2-135M and reads 2,000 tokens. One side is the dense
// model. The other side also shows 32 probes for each of the stages after 6 and 9 layers, as SmolLM2's calibration does, and scores the
// tokens by them. The stages keep every token, so that both sides compute the same rows, and their logits must have the same bits. The two
// sides run in turn, and take turns to go first. `ratio` is the median time with probes divided by that without.
#include <benchmark/benchmark.h>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/model/transformer.hpp>

#include <utility>
#include <vector>

#include "../measure.hpp"

namespace {

using namespace lazyprune;

constexpr std::size_t tokens = 2000;

model_config smollm2() {
  model_config config = shape_named("tinyllama-1.1b");
  config.hidden = 576;
  config.ffn = 1536;
  config.layers = 30;
  config.n_heads = 9;
  config.n_kv_heads = 3;
  config.head_dim = 64;
  config.vocabulary = 49152;
  return config;
}

/// 32 probes for each stage. No two of them read the same layer, head and reduction.
calibration some_probes() {
  std::vector<calibrated_probe> probes;
  for (const auto& [begin, after] : {std::pair<layer_id, layer_id>{2, 6}, {6, 9}})
    for (std::uint32_t i = 0, n = after - begin; i < 32; ++i)
      probes.push_back({.after = after,
                        .layer = begin + i % n,
                        .head = i / n % 9,
                        .queries = static_cast<query_reduction>((i / n + i / (9 * n)) % 3),
                        .block = static_cast<block_pooling>(i % 2),
                        .weight = 1.0f,
                        .counts_for = static_cast<counted_block>(i / 2 % 2)});
  return calibration(std::move(probes));
}

void probes_over_dense_prefill(benchmark::State& state) {
  const model_config config = smollm2();
  cpu backend({.threads = static_cast<int>(state.range(0))});
  const model<cpu> m = load_model(backend, config, random_source(config, dtype::bf16));
  std::vector<token_id> ids(tokens);
  for (std::size_t i = 0; i < tokens; ++i) ids[i] = static_cast<token_id>(mix(0, i) % config.vocabulary);

  const session_options options{.layers = static_cast<layer_id>(config.layers), .max_tokens = tokens};
  const policy probing{calibrated_attention{.block = 16, .chosen = some_probes(), .following = 3}, stages{{6, 1.0}, {9, 1.0}}, blocks{},
                       keep_all{}};
  sequence<cpu> with(m, any_session(probing, options)), without(m, any_session(dense(), options));
  workspace<cpu> work(m, backend);
  work.reserve(tokens);

  const auto read = [&](sequence<cpu>& text) {
    text.clear();
    const std::span<const float> logits = forward(work, text, ids, phase::prefill);
    return std::vector<float>(logits.begin(), logits.end());
  };

  if (read(with) != read(without)) return state.SkipWithError("the logits differ");
  const auto [probed, plain] = bench::times_in_turn(
      state, [&] { read(with); }, [&] { read(without); });
  state.counters["probed_ms"] = 1e3 * probed;
  state.counters["dense_ms"] = 1e3 * plain;
  state.counters["ratio"] = probed / plain;
}

BENCHMARK(probes_over_dense_prefill)->ArgName("threads")->Arg(1)->Arg(2)->Iterations(11)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
