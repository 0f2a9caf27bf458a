// SPDX-License-Identifier: MIT
// Helpers that the benchmarks share: random numbers, the peak rates of this machine, and timing.
#pragma once

#include <benchmark/benchmark.h>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/core/mix.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/cpu_peaks.hpp"

namespace bench {

/// More bytes than the caches of a processor hold. A loop over this many bytes reads them from memory, not from a cache.
inline constexpr std::size_t beyond_caches = std::size_t{512} << 20;

/// The number of copies of this size that together exceed the caches.
inline std::size_t copies_beyond_caches(std::size_t bytes) { return (beyond_caches + bytes - 1) / bytes; }

/// Random numbers, uniform in [-size, size).
inline lazyprune::aligned_array<float> random_numbers(std::size_t count, float size, std::uint64_t seed) {
  lazyprune::aligned_array<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers.data()[i] = (static_cast<float>(lazyprune::mix(seed, i) >> 40) * 0x1p-23f - 1.0f) * size;
  return numbers;
}

/// The numbers of threads to measure: one, and also two if the process may use two.
inline const std::vector<int>& thread_counts() {
  static const std::vector<int> counts = lazyprune::detail::available_threads() > 1 ? std::vector<int>{1, 2} : std::vector<int>{1};
  return counts;
}

/// The peak rate of arithmetic in FLOP/s. Measured at the first call.
inline double arithmetic_ceiling(lazyprune::isa i, lazyprune::dtype type, int threads) {
  static std::map<std::tuple<lazyprune::isa, lazyprune::dtype, int>, double> known;
  const auto [entry, fresh] = known.try_emplace({i, type, threads}, 0.0);
  if (fresh)
    for (int time = 0; time < 10; ++time)
      entry->second = std::max(entry->second, lazyprune::program::cpu_peaks(threads).arithmetic(i, type));
  return entry->second;
}

/// The peak rate of memory reads in B/s. Measured at the first call.
inline double reading_ceiling(int threads) {
  static std::map<int, double> known;
  const auto [entry, fresh] = known.try_emplace(threads, 0.0);
  if (fresh) entry->second = lazyprune::program::cpu_peaks(threads).reading(lazyprune::program::cpu_peaks::beyond_caches());
  return entry->second;
}

/// Runs work() as often as the benchmark asks. Returns the mean seconds of a run.
template <class Work>
double time_of(benchmark::State& state, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(state.iterations());
}

/// Runs both sides in turn, as often as the benchmark asks. They take turns to go first. Returns the median seconds of each.
template <class One, class Other>
std::pair<double, double> times_in_turn(benchmark::State& state, const One& one, const Other& other) {
  std::vector<double> of_one, of_other;
  const auto timed = [](std::vector<double>& times, const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  for (auto _ : state) {
    const bool first = of_one.size() % 2 == 0;
    if (first) timed(of_one, one);
    timed(of_other, other);
    if (!first) timed(of_one, one);
  }
  const auto median = [](std::vector<double>& times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    return *middle;
  };
  return {median(of_one), median(of_other)};
}

/// Registers a benchmark that cannot be measured here. The output shows it with the reason.
inline void register_absent(const std::string& name, const std::string& why) {
  benchmark::RegisterBenchmark(name.c_str(), [why](benchmark::State& state) { state.SkipWithError(why.c_str()); });
}

/// The instruction sets with their own kernels for a type. In f32 the sets above AVX-512 use the AVX-512 kernels.
inline std::vector<lazyprune::isa> kernels_for(lazyprune::dtype type) {
  if (type == lazyprune::dtype::f32) return {lazyprune::isa::portable, lazyprune::isa::avx2, lazyprune::isa::avx512};
  return {std::begin(lazyprune::every_isa), std::end(lazyprune::every_isa)};
}

/// The name of a column, like "bf16.amx".
inline std::string column(lazyprune::dtype type, lazyprune::isa i) {
  return std::string(lazyprune::name_of(type)) + "." + std::string(lazyprune::name_of(i));
}

/// The best f32 instruction set of this machine. Other libraries are compared with its peak.
inline lazyprune::isa best_f32_isa() { return std::min(lazyprune::best_isa(), lazyprune::isa::avx512); }

inline int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace bench
