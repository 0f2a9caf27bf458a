// SPDX-License-Identifier: MIT
// Measures the cost of a policy in a whole prefill: scoring, selecting and planning in every layer, without a model. The evidence is made
// beforehand and is the same for every layer. The reference column reads the scores once at each of three selections.
#include <benchmark/benchmark.h>

#include <lazyprune/core/mix.hpp>
#include <lazyprune/lazyprune.hpp>

#include <numeric>
#include <vector>

namespace {

using namespace lazyprune;

// The sizes of TinyLlama-1.1B.
constexpr layer_id layers = 22;
constexpr std::size_t heads = 32, kv_heads = 4, head_dim = 64;
constexpr std::size_t window = window_attention{}.window;

std::vector<float> random_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(mix(0, i) >> 40) * 0x1p-24f;
  return numbers;
}

/// Random evidence of every kind that a scorer can ask for.
class made_up {
 public:
  explicit made_up(std::size_t tokens)
      : probabilities_(random_numbers(window * heads * tokens)), vectors_(random_numbers(tokens * kv_heads * head_dim)) {}

  evidence look(const layer_plan& plan, evidence_kind wanted, std::size_t queries) const {
    const attention_view attention{probabilities_.data(), heads, plan.active.size(), plan.active};
    switch (wanted) {
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{probabilities_.data(), queries, heads, plan.active.size(), plan.active};
      case evidence_kind::keys:
        return key_view{vectors_.data(), kv_heads, head_dim, kv_heads * head_dim, plan.active};
      case evidence_kind::values:
        return value_view{attention, vectors_.data(), kv_heads, head_dim, kv_heads * head_dim};
      default:
        return {};
    }
  }

 private:
  std::vector<float> probabilities_;  // (window, heads, tokens)
  std::vector<float> vectors_;        // (tokens, kv_heads, head_dim)
};

template <class Policy>
void prefill(benchmark::State& state, const Policy& policy) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  const made_up evidence(tokens);
  any_session session(policy, {.layers = layers, .max_tokens = tokens});
  std::size_t spilled = 0;
  for (auto _ : state) {
    session.reset();
    auto step = session.begin({tokens, phase::prefill});
    for (layer_id l = 0; l < layers; ++l) {
      const layer_plan& plan = step.enter(l);
      step.leave(evidence.look(plan, step.wants(), step.window()));
      spilled += step.spills().size();
    }
    step.finish();
  }
  benchmark::DoNotOptimize(spilled);
  state.counters["rows"] = static_cast<double>(session.stats().rows) / static_cast<double>(layers * tokens);
}

template <class Scorer>
auto lazyllm_by(Scorer scorer) {
  return policy{scorer, lazyllm_stages(layers), top_k{}, keep_all{}};
}

void preset_dense(benchmark::State& state) { prefill(state, dense()); }
void preset_lazyllm(benchmark::State& state) { prefill(state, lazyllm(layers)); }
void preset_static(benchmark::State& state) { prefill(state, static_pruning(lazyllm_stages(layers))); }
void preset_random(benchmark::State& state) { prefill(state, random_drop(0.7)); }
void preset_streaming(benchmark::State& state) { prefill(state, streaming_llm()); }
void preset_pyramid_kv(benchmark::State& state) { prefill(state, pyramid_kv()); }
void lazyllm_accumulated_attention(benchmark::State& state) { prefill(state, lazyllm_by(accumulated_attention{})); }
void lazyllm_window_attention(benchmark::State& state) { prefill(state, lazyllm_by(window_attention{})); }
void lazyllm_value_weighted_attention(benchmark::State& state) { prefill(state, lazyllm_by(value_weighted_attention{})); }
void lazyllm_key_norm(benchmark::State& state) { prefill(state, lazyllm_by(key_norm{})); }

void reading_the_scores(benchmark::State& state) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  const std::vector<float> p = random_numbers(heads * tokens);
  std::vector<float> sum(tokens);
  for (auto _ : state)
    for (std::size_t selection = 0, active = tokens; selection < 3; ++selection, active = active * 7 / 10) {
      std::fill_n(sum.begin(), active, 0.0f);
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < active; ++i) sum[i] += p[h * active + i];
      benchmark::DoNotOptimize(sum.data());
      benchmark::ClobberMemory();
    }
}

void lengths(benchmark::internal::Benchmark* b) { b->Arg(2048)->Arg(4096)->Unit(benchmark::kMicrosecond); }

BENCHMARK(preset_dense)->Apply(lengths);
BENCHMARK(preset_lazyllm)->Apply(lengths);
BENCHMARK(preset_static)->Apply(lengths);
BENCHMARK(preset_random)->Apply(lengths);
BENCHMARK(preset_streaming)->Apply(lengths);
BENCHMARK(preset_pyramid_kv)->Apply(lengths);
BENCHMARK(lazyllm_accumulated_attention)->Apply(lengths);
BENCHMARK(lazyllm_window_attention)->Apply(lengths);
BENCHMARK(lazyllm_value_weighted_attention)->Apply(lengths);
BENCHMARK(lazyllm_key_norm)->Apply(lengths);
BENCHMARK(reading_the_scores)->Apply(lengths);

}  // namespace
