// SPDX-License-Identifier: MIT
// Measures the peak rates of this processor: multiply-adds on registers alone, and memory reads.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include <lazyprune/backend/cpu/kernels/portable/vec.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>
#include <lazyprune/backend/large_array.hpp>
#include <lazyprune/backend/machine_limits.hpp>
#if defined(__x86_64__)
#include <lazyprune/backend/cpu/kernels/amx/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/vec.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/vec.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_vnni/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/avx_vnni/int8_product.hpp>
#endif

namespace lazyprune {
namespace program {

namespace kernels {

using namespace lazyprune::kernels;

inline constexpr std::size_t fma_rounds = 100'000;

// Each kernel returns the number of floating-point operations that it did. It keeps enough independent sums to hide the latency of one
// instruction.
inline double fma_portable() {
  using portable::batch;
  batch sums[12], x(0.999f), y(0.001f);
  for (batch& sum : sums) sum = batch(0.0f);
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    asm volatile("" : "+r"(n) : : "memory");
    for (batch& sum : sums) sum = xsimd::fma(x, sum, y);
  }
  for (const batch& sum : sums) {
    float out[batch::size];
    sum.store_unaligned(out);
    asm volatile("" : : "r"(out) : "memory");
  }
  return 12.0 * batch::size * 2 * fma_rounds;
}

#if defined(__x86_64__)

LAZYPRUNE_AVX2 inline double fma_avx2() {
  __m256 sums[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) asm volatile("" : "=x"(sums[i]));  // keeps the compiler from merging the twelve sums into one
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    asm volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_fmadd_ps(x, y, sums[i]);
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) asm volatile("" : : "x"(sums[i]));
  return 12.0 * 8 * 2 * fma_rounds;
}

LAZYPRUNE_AVX512 inline double fma_avx512() {
  __m512 sums[24], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) asm volatile("" : "=v"(sums[i]));
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) sums[i] = _mm512_fmadd_ps(x, y, sums[i]);
  }
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) asm volatile("" : : "v"(sums[i]));
  return 24.0 * 16 * 2 * fma_rounds;
}

LAZYPRUNE_AVX512_BF16 inline double pairs_avx512_bf16() {
  __m512 sums[24];
  __m512i x = _mm512_set1_epi32(0x3f7f3f7f), y = _mm512_set1_epi32(0x3a803a80);
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) asm volatile("" : "=v"(sums[i]));
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)x, (__m512bh)y);
  }
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) asm volatile("" : : "v"(sums[i]));
  return 24.0 * 16 * 4 * fma_rounds;
}

// These count the multiplications of bytes and the additions of their products.
LAZYPRUNE_AVX2 inline double bytes_avx2() {
  __m256i sums[8], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" : "=x"(sums[i]));
  for (std::size_t n = 0; n < fma_rounds; ++n) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      asm volatile("" : "+x"(x), "+x"(y));
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" : : "x"(sums[i]));
  return 8.0 * 32 * 2 * fma_rounds;
}

LAZYPRUNE_AVX_VNNI inline double bytes_avx_vnni() {
  __m256i sums[12], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) asm volatile("" : "=x"(sums[i]));
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    asm volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_dpbusd_avx_epi32(sums[i], x, y);
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) asm volatile("" : : "x"(sums[i]));
  return 12.0 * 32 * 2 * fma_rounds;
}

LAZYPRUNE_AVX512_VNNI inline double bytes_avx512_vnni() {
  __m512i sums[24], x = _mm512_set1_epi32(0x03030303), y = _mm512_set1_epi32(0x05050505);
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) asm volatile("" : "=v"(sums[i]));
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], x, y);
  }
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) asm volatile("" : : "v"(sums[i]));
  return 24.0 * 64 * 2 * fma_rounds;
}

LAZYPRUNE_AMX inline double tiles_amx() {
  amx::enter();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::size_t n = 0; n < fma_rounds; ++n) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  amx::leave();
  return 4.0 * 16 * 16 * 32 * 2 * fma_rounds;
}

template <std::size_t Ahead>
LAZYPRUNE_AVX2 inline void read_avx2(const std::byte* from, std::size_t lines) {
  __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  for (std::size_t n = 0; n < lines; n += 2, from += 128) {
    if constexpr (Ahead > 0) {
      _mm_prefetch(reinterpret_cast<const char*>(from) + Ahead, _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from) + Ahead + 64, _MM_HINT_T0);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sums[i] = _mm256_xor_si256(sums[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + i));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) asm volatile("" : : "x"(sums[i]));
}

#endif

inline void read_portable(const std::byte* from, std::size_t lines) {
  using portable::batch;
  batch sum(0.0f);
  for (std::size_t i = 0; i < lines * 64; i += sizeof(batch)) sum = sum + batch::load_unaligned(reinterpret_cast<const float*>(from + i));
  float out[batch::size];
  sum.store_unaligned(out);
  asm volatile("" : : "r"(out) : "memory");
}

/// Reads an even number of cache lines of 64 bytes.
using reader = void (*)(const std::byte* from, std::size_t lines);

/// The ways to read memory. Prefetching makes some processors faster and others slower.
inline std::vector<reader> readers() {
#if defined(__x86_64__)
  if (has(isa::avx2)) return {read_avx2<0>, read_avx2<4096>};
#endif
  return {read_portable};
}

}  // namespace kernels

/// Measures the peak rates with `threads` threads at once. Each rate is the best of several short measurements.
class cpu_peaks {
 public:
  explicit cpu_peaks(int threads) : threads_(threads) {}

  /// Returns the FLOP/s of the instruction of set `i` that multiplies by weights of this type. Throws `error` if the processor lacks the
  /// instruction set.
  double arithmetic(isa i, [[maybe_unused]] dtype weights) const {
    if (!has(i)) throw error("", "peaks", "an instruction set of this processor", name_of(i));
#if defined(__x86_64__)
    if (i == isa::portable) return best(kernels::fma_portable);
    if (i == isa::avx2) return best(kernels::fma_avx2);
    if (weights == dtype::f32 || i == isa::avx512) return best(kernels::fma_avx512);
    return best(i == isa::avx512_bf16 ? kernels::pairs_avx512_bf16 : kernels::tiles_amx);
#else
    return best(kernels::fma_portable);
#endif
  }

  /// Returns the operations/s of the instructions with which these kernels multiply bytes. On portable, these are the operations of
  /// `arithmetic`, although bytes may be faster.
  double byte_arithmetic([[maybe_unused]] const kernels::product_kernel& kernel) const {
#if defined(__x86_64__)
    if (&kernel == &kernels::avx512_vnni::int8) return best(kernels::bytes_avx512_vnni);
    if (&kernel == &kernels::avx_vnni::int8) return best(kernels::bytes_avx_vnni);
    if (&kernel == &kernels::avx2::int8) return best(kernels::bytes_avx2);
#endif
    return arithmetic(isa::portable, dtype::f32);
  }

  /// Returns a number of bytes for `reading`: 2 GiB, or a quarter of the available memory if that is less.
  static std::size_t beyond_caches() {
    constexpr std::uint64_t enough = std::uint64_t{2} << 30;
    return static_cast<std::size_t>(std::min(enough, available_memory().value_or(4 * enough) / 4));
  }

  /// Returns the B/s of reading `bytes` of memory, in huge pages as the weights are. Each thread reads its own share. `bytes` must be
  /// larger than the caches.
  double reading(std::size_t bytes) const {
    large_array memory(bytes / 4096 * 4096 + 8192);
    const auto threads = static_cast<std::size_t>(threads_);
    const std::size_t lines = bytes / threads / 128 * 2;
    detail::for_tasks(threads_, threads,
                      [&](std::size_t t, std::size_t) { std::fill_n(memory.data() + t * lines * 64, lines * 64, std::byte{1}); });
    const auto rounds = [&](kernels::reader read, int count) {
      return fastest(count, [&](std::size_t t) { read(memory.data() + t * lines * 64, lines); });
    };
    double least = std::numeric_limits<double>::infinity();
    kernels::reader faster = nullptr;
    for (const kernels::reader read : kernels::readers())
      if (const double seconds = rounds(read, 1); seconds < least) least = seconds, faster = read;
    least = std::min(least, rounds(faster, 4));
    return static_cast<double>(lines * 64 * threads) / least;
  }

 private:
  /// Runs `work(t)` on every thread t at once, `rounds` times. Returns the seconds of the fastest round.
  template <class Work>
  double fastest(int rounds, const Work& work) const {
    double least = 1e9;
    for (int i = 0; i < rounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      detail::for_tasks(threads_, static_cast<std::size_t>(threads_), [&](std::size_t t, std::size_t) { work(t); });
      least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return least;
  }

  double best(double (*work)()) const {
    double done = 0;
    const double least = fastest(15, [&](std::size_t t) {
      const double operations = work();
      if (t == 0) done = operations;
    });
    return done * threads_ / least;
  }

  int threads_;
};

}  // namespace program
}  // namespace lazyprune
