// SPDX-License-Identifier: MIT
// Products in AVX-512. The sums of up to 12 rows take up to 24 of the 32 registers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/unpack.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/unpack_kv.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/vec.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

inline constexpr std::size_t strip = 12;
inline constexpr std::size_t usual_ahead = 24 * line_bytes;

/// Stores the first `lines` vectors, `rows` lanes of each, one right after the other. Each store writes all 16 lanes, and the next store
/// overwrites the lanes that are not rows. The last lines of a strip go through a buffer, because other memory may follow them. `last` is
/// true if fewer than 16 lines follow.
LAZYPRUNE_AVX512_INLINE void store_lanes(const __m512 (&block)[16], std::size_t lines, std::size_t rows, bool last, float* to) {
  float buffer[16 * 16];
  float* at = last ? buffer : to;
  for (std::size_t i = 0; i < lines; ++i, at += rows) _mm512_storeu_ps(at, block[i]);
  if (last) std::memcpy(to, buffer, lines * rows * sizeof(float));
}

/// The packed order is (depth, rows).
LAZYPRUNE_AVX512 inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth,
                                  std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  for (std::size_t k = 0; k < depth; k += 16) {
    const std::size_t left = k < inputs ? inputs - k : 0;
    __m512 block[16];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < 16; ++r) block[r] = vec::load_some(x + (r < rows ? r : 0) * stride + k, left);
    vec::transpose(block);
    const std::size_t lines = depth - k < 16 ? depth - k : 16;
    store_lanes(block, lines, rows, depth - k < 32, to);
    to += lines * rows;
  }
}

/// A columns_writer.
LAZYPRUNE_AVX512 inline void write_columns(const std::byte* const (&rows)[half_outputs], std::size_t count, std::size_t stride,
                                           std::byte* to) {
  __m512 block[16];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < 16; ++r) block[r] = _mm512_castsi512_ps(_mm512_loadu_si512(rows[r]));
  vec::transpose(block);
  for (std::size_t i = 0; i < count; ++i, to += stride) _mm512_storeu_si512(to, _mm512_castps_si512(block[i]));
}

template <int Rows>
LAZYPRUNE_AVX512_INLINE void load(__m512 (&sums)[Rows][2], const float* from, bool more) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p)
      sums[r][p] = more ? _mm512_loadu_ps(from + static_cast<std::size_t>(r) * tile_outputs + 16 * p) : _mm512_setzero_ps();
}

template <int Rows>
LAZYPRUNE_AVX512_INLINE void store(const __m512 (&sums)[Rows][2], float* to) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) _mm512_storeu_ps(to + static_cast<std::size_t>(r) * tile_outputs + 16 * p, sums[r][p]);
}

/// sums += each row's number times 16 outputs of each half of a tile.
template <std::size_t Stride, int Rows>
LAZYPRUNE_AVX512_INLINE void add_lines(__m512 (&sums)[Rows][2], const float* x, __m512 first, __m512 second) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    const __m512 number = _mm512_set1_ps(x[static_cast<std::size_t>(r) * Stride]);
    sums[r][0] = _mm512_fmadd_ps(number, first, sums[r][0]);
    sums[r][1] = _mm512_fmadd_ps(number, second, sums[r][1]);
  }
}

LAZYPRUNE_AVX512_INLINE void prefetch(const void* line, std::size_t ahead) {
  _mm_prefetch(static_cast<const char*>(line) + ahead, _MM_HINT_T0);
  _mm_prefetch(static_cast<const char*>(line) + ahead + cache_line, _MM_HINT_T0);
}

/// Multiplies by weights in f32.
template <int Rows, bool Packed = true>
LAZYPRUNE_AVX512 inline void multiply_rows(const float* x, const float* line, std::size_t depth, float* to, const tile_mode& mode) {
  __m512 sums[Rows][2];
  load(sums, to, mode.more);
  prefetch_run next = mode.next;
  for (std::size_t k = 0; k < depth; ++k, x += Packed ? Rows : 1, line += tile_outputs, next.from += next.step) {
    prefetch(line, mode.ahead);
    if constexpr (Packed) prefetch_l2(next.from);
    add_lines<Packed ? 1 : unpacked_stride>(sums, x, _mm512_loadu_ps(line), _mm512_loadu_ps(line + half_outputs));
  }
  store(sums, to);
}

/// Multiplies by weights in bf16, widened in registers. The first of two inputs is in the lower half of 32 bits, the second in the upper.
template <int Rows>
LAZYPRUNE_AVX512 inline void multiply_rows(const float* x, const std::uint32_t* line, std::size_t depth, float* to, const tile_mode& mode) {
  __m512 sums[Rows][2];
  load(sums, to, mode.more);
  prefetch_run next = mode.next;
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (std::size_t k = 0; k < depth; k += 2, x += 2 * Rows, line += tile_outputs, next.from += 2 * next.step) {
    prefetch(line, mode.ahead);
    prefetch_l2(next.from);
    const __m512i a = _mm512_loadu_si512(line), b = _mm512_loadu_si512(line + half_outputs);
    add_lines<1>(sums, x, _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)));
    add_lines<1>(sums, x + Rows, _mm512_castsi512_ps(_mm512_and_si512(a, upper)), _mm512_castsi512_ps(_mm512_and_si512(b, upper)));
  }
  store(sums, to);
}

/// Widens weights before the product. If the product widened them in registers, this work would compete with the multiplications, because
/// Intel's cores have only two ports for 512 bits.
LAZYPRUNE_AVX512 inline void widen(const std::byte* tile, std::size_t depth, float* wide) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (std::size_t k = 0; k < depth; k += 2, tile += line_bytes, wide += 2 * tile_outputs)
    for (std::size_t half = 0; half < 2; ++half) {
      const __m512i pairs = _mm512_loadu_si512(tile + half * cache_line);
      _mm512_storeu_si512(wide + half * half_outputs, _mm512_slli_epi32(pairs, 16));
      _mm512_storeu_si512(wide + tile_outputs + half * half_outputs, _mm512_and_si512(pairs, upper));
    }
}

template <class Weight, int... Less>
LAZYPRUNE_AVX512 inline void multiply_any(std::integer_sequence<int, Less...>, const std::byte* packed, std::size_t rows,
                                          const std::byte* tile, std::size_t depth, float* sums, const tile_mode& mode) {
  constexpr void (*by_rows[])(const float*, const Weight*, std::size_t, float*, const tile_mode&) = {multiply_rows<Less + 1>...};
  by_rows[rows - 1](reinterpret_cast<const float*>(packed), reinterpret_cast<const Weight*>(tile), depth, sums, mode);
}

template <class Weight>
LAZYPRUNE_AVX512 inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                                      const tile_mode& mode) {
  multiply_any<Weight>(std::make_integer_sequence<int, strip>{}, packed, rows, tile, depth, sums, mode);
}

template <int... Less>
LAZYPRUNE_AVX512 inline void multiply_any_unpacked(std::integer_sequence<int, Less...>, const float* x, std::size_t rows, const float* tile,
                                                   std::size_t depth, float* sums, bool more) {
  constexpr void (*by_rows[])(const float*, const float*, std::size_t, float*, const tile_mode&) = {multiply_rows<Less + 1, false>...};
  by_rows[rows - 1](x, tile, depth, sums, {more, no_prefetch(x), usual_ahead});
}

LAZYPRUNE_AVX512 inline void multiply_unpacked(const float* x, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                                               bool more) {
  multiply_any_unpacked(std::make_integer_sequence<int, strip>{}, x, rows, reinterpret_cast<const float*>(tile), depth, sums, more);
}

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX512
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX512_INLINE
#include <lazyprune/backend/cpu/kernels/shared/exponential.inc>

#include <lazyprune/backend/cpu/kernels/shared/epilogue.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr product_kernel f32{.strip = strip,
                                    .granule = 1,
                                    .unit_bytes = 4 * pack_inputs,
                                    .line_inputs = 1,
                                    .int8 = false,
                                    .ahead = usual_ahead,
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
                                    .multiply_unpacked = multiply_unpacked,
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
  k.unpack = avx2::unpack;
  k.multiply = multiply<std::uint32_t>;
  k.widen = widen;
  k.multiply_wide = multiply<float>;
  return k;
}();

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
