// SPDX-License-Identifier: MIT
// Measures the time that a pruning session takes for one decode step, without any model, by the number of known tokens. The step has 32
// layers and three selections. `reading_the_scores` is a lower bound for any session: it only reads the scores, once at each selection.
#include <benchmark/benchmark.h>

#include <lazyprune/lazyprune.hpp>
#ifdef LAZYPRUNE_BENCH_C
#include <lazyprune/c/lazyprune.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace {

using namespace lazyprune;

constexpr layer_id layers = 32;
constexpr std::size_t heads = 32;

std::vector<float> probabilities(std::size_t tokens) {
  std::vector<float> p(heads * tokens);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double x = std::sin(static_cast<double>(i) * 12.9898) * 43758.5453;
    p[i] = static_cast<float>(x - std::floor(x)) / static_cast<float>(tokens);
  }
  return p;
}

template <class Session>
void drive(Session& session, const std::vector<float>& p, std::size_t new_tokens, phase phase) {
  auto step = session.begin({new_tokens, phase});
  for (layer_id l = 0; l < layers; ++l) {
    const layer_plan& plan = step.enter(l);
    if (step.wants_scores())
      step.leave(attention_view{p.data(), heads, plan.active.size(), plan.active});
    else
      step.leave();
  }
  step.finish();
}

/// Measures decode steps. When the sequence is twice as long as at the start, it is reset; the reset is not timed.
template <class Make>
void decode(benchmark::State& state, Make make) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  const std::vector<float> p = probabilities(2 * tokens + 1);
  auto session = make(2 * tokens);
  std::size_t rows = 0;
  for (auto _ : state) {
    if (session.known() == 0 || session.known() == 2 * tokens) {
      state.PauseTiming();
      session.reset();
      drive(session, p, tokens, phase::prefill);
      state.ResumeTiming();
    }
    drive(session, p, 1, phase::decode);
    rows = session.stats().rows;
  }
  benchmark::DoNotOptimize(rows);
  state.SetComplexityN(state.range(0));
}

const stages paper{{9, 0.7}, {19, 0.7}, {28, 0.7}};

void lazyllm_session(benchmark::State& state) {
  decode(state, [](std::size_t n) { return session(lazyllm(paper), {.layers = layers, .max_tokens = n}); });
}
void lazyllm_any_session(benchmark::State& state) {
  decode(state, [](std::size_t n) { return any_session(lazyllm(paper), {.layers = layers, .max_tokens = n}); });
}
/// The session that make_session makes: one type for every policy.
void lazyllm_of_erased_parts(benchmark::State& state) {
  const policy parts{any_scorer(last_query_attention{}), any_schedule(paper), any_selector(protect(any_selector(top_k{}))),
                     any_store(keep_all{})};
  decode(state, [&](std::size_t n) { return any_session(parts, {.layers = layers, .max_tokens = n}); });
}
#ifdef LAZYPRUNE_BENCH_C
/// The same session through the C library, in the same loop.
class c_session {
 public:
  explicit c_session(std::size_t max_tokens) {
    lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
    options.layers = layers;
    options.max_tokens = max_tokens;
    if (lazyprune_session_create(nullptr, "lazyllm --stages 9:0.7,19:0.7,28:0.7", &options, &session_).code) std::abort();
  }
  c_session(const c_session&) = delete;
  c_session& operator=(const c_session&) = delete;
  ~c_session() { lazyprune_session_free(session_); }

  std::size_t known() const {
    lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
    lazyprune_session_get_state(session_, &state);
    return state.known;
  }
  statistics stats() const {
    lazyprune_statistics sums = LAZYPRUNE_STATISTICS;
    lazyprune_session_get_statistics(session_, &sums);
    return {.rows = sums.rows, .prefill_rows = {}, .prefill_dense_rows = {}};
  }
  void reset() { lazyprune_session_reset(session_); }

  friend void drive(c_session& s, const std::vector<float>& p, std::size_t new_tokens, phase phase) {
    lazyprune_request request = LAZYPRUNE_REQUEST;
    request.tokens = new_tokens;
    request.outputs = 1;
    request.phase = static_cast<std::uint32_t>(phase);
    std::uint32_t depth = 0;
    bool failed = lazyprune_step_begin(s.session_, &request, &depth).code != 0;
    for (std::uint32_t l = 0; l < depth; ++l) {
      lazyprune_plan plan = LAZYPRUNE_PLAN;
      lazyprune_spills spills = LAZYPRUNE_SPILLS;
      failed |= lazyprune_step_enter(s.session_, l, &plan).code != 0;
      lazyprune_evidence shown = LAZYPRUNE_EVIDENCE;
      shown.kind = plan.wants;
      shown.data = p.data();
      shown.heads = heads;
      shown.stride = plan.active_count;
      failed |= lazyprune_step_leave(s.session_, &shown, &spills).code != 0;
    }
    failed |= lazyprune_step_finish(s.session_).code != 0;
    if (failed) std::abort();
  }

 private:
  lazyprune_session* session_ = nullptr;
};

void lazyllm_through_c(benchmark::State& state) {
  decode(state, [](std::size_t n) { return c_session(n); });
}
#endif
void dense_any_session(benchmark::State& state) {
  decode(state, [](std::size_t n) { return any_session(dense(), {.layers = layers, .max_tokens = n}); });
}
void reading_the_scores(benchmark::State& state) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  const std::vector<float> p = probabilities(tokens);
  std::vector<float> sum(tokens);
  for (auto _ : state)
    for (std::size_t selection = 0, active = tokens; selection < 3; ++selection, active = active * 7 / 10) {
      std::fill_n(sum.begin(), active, 0.0f);
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < active; ++i) sum[i] += p[h * active + i];
      benchmark::DoNotOptimize(sum.data());
      benchmark::ClobberMemory();
    }
  state.SetComplexityN(state.range(0));
}

BENCHMARK(lazyllm_session)->RangeMultiplier(4)->Range(512, 32768)->Complexity()->Unit(benchmark::kMicrosecond);
BENCHMARK(lazyllm_any_session)->RangeMultiplier(4)->Range(512, 32768)->Complexity()->Unit(benchmark::kMicrosecond);
BENCHMARK(lazyllm_of_erased_parts)->RangeMultiplier(4)->Range(512, 32768)->Complexity()->Unit(benchmark::kMicrosecond);
#ifdef LAZYPRUNE_BENCH_C
BENCHMARK(lazyllm_through_c)->RangeMultiplier(4)->Range(512, 32768)->Complexity()->Unit(benchmark::kMicrosecond);
#endif
BENCHMARK(dense_any_session)->RangeMultiplier(4)->Range(512, 131072)->Complexity()->Unit(benchmark::kMicrosecond);
BENCHMARK(reading_the_scores)->RangeMultiplier(4)->Range(512, 32768)->Complexity()->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
