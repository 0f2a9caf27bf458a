// SPDX-License-Identifier: MIT
// What the benchmarks share: numbers to compute with, what this machine can do at most, and rates beside the time.
#pragma once

#include <benchmark/benchmark.h>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/core/mix.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engine/cpu_peaks.hpp"

namespace bench {

/// More than the caches of a processor hold: what is read from so many bytes in turn comes from memory.
inline constexpr std::size_t beyond_caches = std::size_t{512} << 20;

/// How often something of this size is needed to be that much.
inline std::size_t copies_beyond_caches(std::size_t bytes) { return (beyond_caches + bytes - 1) / bytes; }

/// Uniform in [-size, size).
inline lazyprune::aligned_array<float> random_numbers(std::size_t count, float size, std::uint64_t seed) {
  lazyprune::aligned_array<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers.data()[i] = (static_cast<float>(lazyprune::mix(seed, i) >> 40) * 0x1p-23f - 1.0f) * size;
  return numbers;
}

/// One thread, and two where the process may use them.
inline const std::vector<int>& thread_counts() {
  static const std::vector<int> counts = lazyprune::detail::available_threads() > 1 ? std::vector<int>{1, 2} : std::vector<int>{1};
  return counts;
}

/// FLOP/s, measured when first asked for.
inline double arithmetic_ceiling(lazyprune::isa i, lazyprune::dtype type, int threads) {
  static std::map<std::tuple<lazyprune::isa, lazyprune::dtype, int>, double> known;
  const auto [entry, fresh] = known.try_emplace({i, type, threads}, 0.0);
  if (fresh)
    for (int time = 0; time < 10; ++time)
      entry->second = std::max(entry->second, lazyprune::program::cpu_peaks(threads).arithmetic(i, type));
  return entry->second;
}

/// B/s of reading memory, measured when first asked for.
inline double reading_ceiling(int threads) {
  static std::map<int, double> known;
  const auto [entry, fresh] = known.try_emplace(threads, 0.0);
  if (fresh) entry->second = lazyprune::program::cpu_peaks(threads).reading(beyond_caches);
  return entry->second;
}

/// Runs work() as often as the benchmark asks. Returns the seconds that it took once.
template <class Work>
double time_of(benchmark::State& state, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(state.iterations());
}

/// A column that cannot be measured here appears, and says why.
inline void register_absent(const std::string& name, const std::string& why) {
  benchmark::RegisterBenchmark(name.c_str(), [why](benchmark::State& state) { state.SkipWithError(why.c_str()); });
}

/// The instruction sets that a type has kernels of its own for. In f32 those above AVX-512 have none: they compute with its.
inline std::vector<lazyprune::isa> kernels_for(lazyprune::dtype type) {
  if (type == lazyprune::dtype::f32) return {lazyprune::isa::portable, lazyprune::isa::avx2, lazyprune::isa::avx512};
  return {std::begin(lazyprune::every_isa), std::end(lazyprune::every_isa)};
}

/// "bf16.amx".
inline std::string column(lazyprune::dtype type, lazyprune::isa i) {
  return std::string(lazyprune::name_of(type)) + "." + std::string(lazyprune::name_of(i));
}

/// The most that this machine has for f32: the measure for libraries of others.
inline lazyprune::isa best_f32_isa() { return std::min(lazyprune::best_isa(), lazyprune::isa::avx512); }

inline int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace bench
