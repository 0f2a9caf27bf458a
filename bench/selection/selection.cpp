// SPDX-License-Identifier: MIT
// Measures the cost of selecting tokens, by selector and number of active tokens. At most half of the tokens are kept. Two reference
// columns select the best half as top_k does: one with std::nth_element, one by sorting all indices by score. Every column copies the
// scores first, because selectors may change them.
#include <benchmark/benchmark.h>

#include <lazyprune/core/mix.hpp>
#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/policy/selector/threshold.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/selector/top_p.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using namespace lazyprune;

/// Makes scores like those of attention: most are small, few are large. The query token has an infinite score, so it is always kept.
std::vector<float> scores_of(std::size_t tokens) {
  std::vector<float> scores(tokens);
  for (std::size_t i = 0; i < tokens; ++i)
    scores[i] = std::exp(-8.0f * static_cast<float>(mix(0, i) >> 40) * 0x1p-24f) / static_cast<float>(tokens);
  scores.back() = std::numeric_limits<float>::infinity();
  return scores;
}

/// Measures select(scores, positions, kept), which writes the kept indices and returns their number.
template <class Select>
void measure(benchmark::State& state, Select select) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  const std::vector<float> scores = scores_of(tokens);
  std::vector<float> scratch(tokens);
  std::vector<position> positions(tokens);
  std::iota(positions.begin(), positions.end(), position{0});
  std::vector<std::uint32_t> kept(tokens);
  std::size_t count = 0;
  for (auto _ : state) {
    std::ranges::copy(scores, scratch.begin());
    count = select(scratch, positions, kept);
    benchmark::DoNotOptimize(kept.data());
    benchmark::ClobberMemory();
  }
  state.counters["kept"] = static_cast<double>(count);
  state.SetComplexityN(state.range(0));
}

template <class Selector>
void by(benchmark::State& state, const Selector& selector) {
  measure(state, [&](std::span<float> scores, std::span<const position> positions, std::span<std::uint32_t> kept) {
    return selector.select({.scores = scores, .positions = positions, .keep = scores.size() / 2}, kept);
  });
}

/// Measures a selection of the best half. arrange(begin, split, end, before) must move the best indices to the front, before `split`.
template <class Arrange>
void by_standard_library(benchmark::State& state, Arrange arrange) {
  measure(state, [&](std::span<float> scores, std::span<const position>, std::span<std::uint32_t> kept) {
    const auto before = [&](std::uint32_t a, std::uint32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a > b; };
    const std::size_t keep = scores.size() / 2;
    const auto split = kept.begin() + static_cast<std::ptrdiff_t>(keep);
    std::iota(kept.begin(), kept.end(), 0u);
    arrange(kept.begin(), split, kept.end(), before);
    std::sort(kept.begin(), split);  // selectors return ascending indices
    return keep;
  });
}

void reference_nth_element(benchmark::State& state) {
  by_standard_library(state, [](auto begin, auto split, auto end, auto before) { std::nth_element(begin, split, end, before); });
}
void reference_sort(benchmark::State& state) {
  by_standard_library(state, [](auto begin, auto, auto end, auto before) { std::sort(begin, end, before); });
}

void selector_top_k(benchmark::State& state) { by(state, top_k{}); }
void selector_top_p(benchmark::State& state) { by(state, top_p{0.9}); }
void selector_threshold(benchmark::State& state) { by(state, threshold{0.02f / static_cast<float>(state.range(0))}); }
void selector_blocks(benchmark::State& state) { by(state, blocks{}); }
void selector_protect(benchmark::State& state) { by(state, protect{top_k{}, 4, 64}); }

void lengths(benchmark::internal::Benchmark* b) { b->RangeMultiplier(2)->Range(512, 16384)->Complexity()->Unit(benchmark::kMicrosecond); }

BENCHMARK(selector_top_k)->Apply(lengths);
BENCHMARK(selector_top_p)->Apply(lengths);
BENCHMARK(selector_threshold)->Apply(lengths);
BENCHMARK(selector_blocks)->Apply(lengths);
BENCHMARK(selector_protect)->Apply(lengths);
BENCHMARK(reference_nth_element)->Apply(lengths);
BENCHMARK(reference_sort)->Apply(lengths);

}  // namespace

BENCHMARK_MAIN();
