// SPDX-License-Identifier: MIT
// Products in AVX2. A strip has up to 6 rows. More than 3 rows are multiplied by half of a tile at a time, because the 16 registers do not
// hold more sums. With 6 rows, the sums of 16 outputs take 12 registers, the weights take 2, and a row's number takes 1.
#pragma once

#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/unpack.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/unpack_kv.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/vec.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

inline constexpr std::size_t strip = 6;

/// The packed order is (depth, rows). Each store writes all 8 lanes, and the next store overwrites the lanes that are not rows. The last
/// lines go through a buffer, because other memory may follow them.
LAZYPRUNE_AVX2 inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth,
                                std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  std::size_t k = 0;
  for (; k + 8 <= inputs; k += 8) {
    __m256 block[8];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < 8; ++r) block[r] = _mm256_loadu_ps(x + (r < rows ? r : 0) * stride + k);
    vec::transpose(block);
    const bool last = k + 16 > inputs;
    float buffer[8 * 8];
    float* at = last ? buffer : to;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i, at += rows) _mm256_storeu_ps(at, block[i]);
    if (last) std::memcpy(to, buffer, 8 * rows * sizeof(float));
    to += 8 * rows;
  }
  for (; k < depth; ++k)
    for (std::size_t r = 0; r < rows; ++r) *to++ = k < inputs ? x[r * stride + k] : 0.0f;
}

template <int Rows, int Vectors>
LAZYPRUNE_AVX2_INLINE void load(__m256 (&sums)[Rows][Vectors], const float* from, bool more) {
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i)
      sums[r][i] = more ? _mm256_loadu_ps(from + static_cast<std::size_t>(r) * tile_outputs + 8 * i) : _mm256_setzero_ps();
}

template <int Rows, int Vectors>
LAZYPRUNE_AVX2_INLINE void store(const __m256 (&sums)[Rows][Vectors], float* to) {
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) _mm256_storeu_ps(to + static_cast<std::size_t>(r) * tile_outputs + 8 * i, sums[r][i]);
}

/// Adds each row's number times 16 outputs of a line to half p of the sums.
template <int Rows, int Vectors>
LAZYPRUNE_AVX2_INLINE void add_line(__m256 (&sums)[Rows][Vectors], std::size_t p, const float* x, __m256 low, __m256 high) {
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
    const __m256 number = _mm256_broadcast_ss(x + r);
    sums[r][2 * p] = _mm256_fmadd_ps(number, low, sums[r][2 * p]);
    sums[r][2 * p + 1] = _mm256_fmadd_ps(number, high, sums[r][2 * p + 1]);
  }
}

/// Multiplies by one or both halves of a tile in f32.
template <int Rows, int Halves>
LAZYPRUNE_AVX2 inline void multiply_lines(const float* x, const float* lines, std::size_t depth, float* to, const tile_mode& mode) {
  __m256 sums[Rows][2 * Halves];
  load(sums, to, mode.more);
  prefetch_run next = mode.next;
  for (std::size_t k = 0; k < depth; ++k, x += Rows, next.from += next.step) {
    prefetch_l2(next.from);
#pragma GCC unroll 2
    for (std::size_t p = 0; p < Halves; ++p) {
      const float* line = lines + k * tile_outputs + p * half_outputs;
      _mm_prefetch(reinterpret_cast<const char*>(line) + mode.ahead, _MM_HINT_T0);
      add_line(sums, p, x, _mm256_loadu_ps(line), _mm256_loadu_ps(line + 8));
      // Makes the compiler read the rows' numbers again for each half, because no registers are left to keep them.
      asm volatile("" ::: "memory");
    }
  }
  store(sums, to);
}

alignas(32) inline constexpr std::uint32_t upper_halves[8] = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
                                                              0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};

/// Multiplies by one or both halves of a tile in bf16, and widens the lines in registers.
template <int Rows, int Halves>
LAZYPRUNE_AVX2 inline void multiply_lines(const float* x, const std::uint32_t* lines, std::size_t depth, float* to, const tile_mode& mode) {
  __m256 sums[Rows][2 * Halves];
  load(sums, to, mode.more);
  prefetch_run next = mode.next;
  const auto* mask = reinterpret_cast<const __m256i*>(upper_halves);
  asm("" : "+r"(mask));  // the mask stays in memory: no register is left for it
  for (std::size_t k = 0; k < depth / 2; ++k, x += 2 * Rows, next.from += 2 * next.step) {
    prefetch_l2(next.from);
#pragma GCC unroll 2
    for (std::size_t p = 0; p < Halves; ++p) {
      const auto* line = reinterpret_cast<const __m256i*>(lines + k * tile_outputs + p * half_outputs);
      _mm_prefetch(reinterpret_cast<const char*>(line) + mode.ahead, _MM_HINT_T0);
      add_line(sums, p, x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(line), 16)),
               _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(line + 1), 16)));
      asm volatile("" ::: "memory");  // makes the compiler read the line again, because no registers are left to keep it
      add_line(sums, p, x + Rows, _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(line), _mm256_load_si256(mask))),
               _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(line + 1), _mm256_load_si256(mask))));
    }
  }
  store(sums, to);
}

/// Up to 3 rows are multiplied by both halves at once, because enough registers are left. With one half at a time, each addition would have
/// to wait for an earlier one, because there would be too few sums.
template <class Weight, int Rows>
LAZYPRUNE_AVX2 inline void multiply_rows(const float* x, const Weight* tile, std::size_t depth, float* sums, const tile_mode& mode) {
  if constexpr (Rows <= 3) {
    multiply_lines<Rows, 2>(x, tile, depth, sums, mode);
  } else {
    // The pass over each half prefetches half of the run.
    tile_mode first = mode, second = mode;
    first.next.step = second.next.step = (mode.next.step + 1) / 2;
    second.next.from += first.next.step * depth;
    multiply_lines<Rows, 1>(x, tile, depth, sums, first);
    multiply_lines<Rows, 1>(x, tile + half_outputs, depth, sums + half_outputs, second);
  }
}

template <class Weight>
LAZYPRUNE_AVX2 inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                                    const tile_mode& mode) {
  constexpr void (*by_rows[])(const float*, const Weight*, std::size_t, float*, const tile_mode&) = {
      multiply_rows<Weight, 1>, multiply_rows<Weight, 2>, multiply_rows<Weight, 3>,
      multiply_rows<Weight, 4>, multiply_rows<Weight, 5>, multiply_rows<Weight, 6>};
  by_rows[rows - 1](reinterpret_cast<const float*>(packed), reinterpret_cast<const Weight*>(tile), depth, sums, mode);
}

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX2
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX2_INLINE
#include <lazyprune/backend/cpu/kernels/shared/exponential.inc>

#include <lazyprune/backend/cpu/kernels/shared/epilogue.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr product_kernel f32{.strip = strip,
                                    .granule = 1,
                                    .unit_bytes = 4 * pack_inputs,
                                    .line_inputs = 1,
                                    .int8 = false,
                                    .ahead = 24 * line_bytes,
                                    .enter = nothing,
                                    .leave = nothing,
                                    .pack = pack,
                                    .pack_rounded = nullptr,
                                    .packed_number = packed_float,
                                    .multiply = multiply<float>,
                                    .unpack = nullptr,
                                    .unpacked_bytes = nullptr,
                                    .panel_rows = 0,
                                    .multiply_panels = nullptr,
                                    .widen = nullptr,
                                    .multiply_wide = nullptr,
                                    .multiply_unpacked = nullptr,
                                    .unpack_f16 = unpack_f16,
                                    .unpack_q8_0 = unpack_q8_0,
                                    .store = store,
                                    .add = add,
                                    .gate_silu = gate<gate_activation::silu>,
                                    .gate_gelu_tanh = gate<gate_activation::gelu_tanh>};

inline constexpr product_kernel bf16 = [] {
  product_kernel k = f32;
  k.line_inputs = 2;
  k.unpacked_bytes = unpacked_bf16_bytes;
  k.unpack_f16 = nullptr;
  k.unpack_q8_0 = nullptr;
  k.unpack = unpack;
  k.multiply = multiply<std::uint32_t>;
  return k;
}();

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
