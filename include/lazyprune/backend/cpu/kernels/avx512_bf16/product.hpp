// SPDX-License-Identifier: MIT
// Products in AVX512-BF16: VDPBF16PS adds two products of bf16 to each sum. Packing rounds the rows to bf16.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_bf16/unpack.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_bf16/unpack_kv.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512_bf16 {

/// Returns x[0..31] rounded to bf16, with zeros from index `left` on.
LAZYPRUNE_AVX512_BF16_INLINE __m512i load_rounded(const float* x, std::size_t left) {
  return (__m512i)_mm512_cvtne2ps_pbh(avx512::vec::load_some(x + 16, left > 16 ? left - 16 : 0), avx512::vec::load_some(x, left));
}

/// The packed order is (depth / 2, rows, 2).
LAZYPRUNE_AVX512_BF16 inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth,
                                       std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  for (std::size_t k = 0; k < depth; k += 32) {
    const std::size_t left = k < inputs ? inputs - k : 0;
    __m512 block[16];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < 16; ++r) block[r] = _mm512_castsi512_ps(load_rounded(x + (r < rows ? r : 0) * stride + k, left));
    avx512::vec::transpose(block);
    avx512::store_lanes(block, 16, rows, k + 32 >= depth, to);
    to += 16 * rows;
  }
}

LAZYPRUNE_AVX512_BF16 inline void pack_rounded(const std::uint16_t* x, std::size_t stride, std::size_t rows, std::size_t depth,
                                               std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  for (std::size_t k = 0; k < depth; k += 32, to += 16 * rows) {
    __m512 block[16];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < 16; ++r) block[r] = _mm512_castsi512_ps(_mm512_loadu_si512(x + (r < rows ? r : 0) * stride + k));
    avx512::vec::transpose(block);
    avx512::store_lanes(block, 16, rows, k + 32 >= depth, to);
  }
}

inline float packed_number(const std::byte* packed, std::size_t padded, std::size_t row, std::size_t input) {
  std::uint16_t bits;
  std::memcpy(&bits, packed + ((input / 2 * padded + row) * 2 + input % 2) * sizeof bits, sizeof bits);
  return float_of_bf16(bits);
}

/// With fewer rows, a product that waits for memory computes idle rows too, whose sums are not used. Without them, the processor runs so
/// far ahead that its own reads overtake the prefetches into L2. On Zen 4, products of 3 to 5 rows then read 22 GB/s instead of 26.
inline constexpr int paced_rows = 6;

/// If `Both` is true, both cache lines of a line are prefetched into L2, see prefetch_run.
template <int Rows, bool Both>
LAZYPRUNE_AVX512_BF16 inline void multiply_rows(const std::int32_t* x, const std::byte* line, std::size_t depth, float* to,
                                                const tile_mode& mode) {
  __m512 sums[Rows][2];
  avx512::load(sums, to, mode.more);
  prefetch_run next = mode.next;
  constexpr int idle_rows = Both && Rows < paced_rows ? paced_rows - Rows : 0;
  __m512 idle[idle_rows + 1][2];
#pragma GCC unroll 6
  for (int r = 0; r < idle_rows; ++r) idle[r][0] = idle[r][1] = _mm512_set1_ps(static_cast<float>(r));  // equal rows would be computed once
  for (std::size_t k = 0; k < depth; k += 2, x += Rows, line += line_bytes, next.from += 2 * next.step) {
    avx512::prefetch(line, mode.ahead);
    prefetch_l2(next.from);
    if constexpr (Both) prefetch_l2(next.from + cache_line);
    const auto a = (__m512bh)_mm512_loadu_si512(line), b = (__m512bh)_mm512_loadu_si512(line + cache_line);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const auto pair = (__m512bh)_mm512_set1_epi32(x[r]);
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], pair, a);
      sums[r][1] = _mm512_dpbf16_ps(sums[r][1], pair, b);
    }
#pragma GCC unroll 6
    for (int r = 0; r < idle_rows; ++r) {
      const auto pair = (__m512bh)_mm512_set1_epi32(x[0]);
      idle[r][0] = _mm512_dpbf16_ps(idle[r][0], pair, a);
      idle[r][1] = _mm512_dpbf16_ps(idle[r][1], pair, b);
    }
  }
  if constexpr (idle_rows > 0) {
    float unused[idle_rows][2][16];
#pragma GCC unroll 6
    for (int r = 0; r < idle_rows; ++r)
      for (int p = 0; p < 2; ++p) _mm512_storeu_ps(unused[r][p], idle[r][p]);
    asm volatile("" : : "r"(unused) : "memory");  // otherwise the compiler leaves out the idle rows
  }
  avx512::store(sums, to);
}

template <int... Less>
LAZYPRUNE_AVX512_BF16 inline void multiply_any(std::integer_sequence<int, Less...>, const std::byte* packed, std::size_t rows,
                                               const std::byte* tile, std::size_t depth, float* sums, const tile_mode& mode) {
  constexpr void (*by_rows[][2])(const std::int32_t*, const std::byte*, std::size_t, float*,
                                 const tile_mode&) = {{multiply_rows<Less + 1, false>, multiply_rows<Less + 1, true>}...};
  by_rows[rows - 1][2 * mode.next.step > cache_line](reinterpret_cast<const std::int32_t*>(packed), tile, depth, sums, mode);
}

LAZYPRUNE_AVX512_BF16 inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                                           const tile_mode& mode) {
  multiply_any(std::make_integer_sequence<int, avx512::strip>{}, packed, rows, tile, depth, sums, mode);
}

inline constexpr product_kernel bf16 = [] {
  product_kernel k = avx512::bf16;
  k.unit_bytes = 2 * pack_inputs;
  k.pack = pack;
  k.pack_rounded = pack_rounded;
  k.packed_number = packed_number;
  k.multiply = multiply;
  k.unpack = unpack;
  k.unpack_q8_0 = unpack_q8_0;
  k.widen = nullptr;
  k.multiply_wide = nullptr;
  k.multiply_unpacked = nullptr;
  return k;
}();

}  // namespace avx512_bf16
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
