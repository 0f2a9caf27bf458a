// SPDX-License-Identifier: MIT
// Products of activations in 8 bits with quantized weights in AVX2. A strip has up to 4 rows. More than 2 rows are multiplied by half of a
// tile at a time, because the 16 registers do not hold more sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>
#include <lazyprune/backend/cpu/kernels/int8_rows.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

/// Eight outputs.
struct lanes {
  using integers = __m256i;
  using floats = __m256;
  static constexpr std::size_t size = 8;
  static constexpr int int8_strip = 4, panel_rows = 2, whole_tile_rows = 2;
  /// If this is true, add_products takes numbers with signs in place of codes of 8 bits. VPMADDUBSW would saturate with the codes.
  static constexpr bool signs = true;

  LAZYPRUNE_AVX2_F16C_INLINE static integers load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  LAZYPRUNE_AVX2_F16C_INLINE static integers all(std::int32_t x) { return _mm256_set1_epi32(x); }
  LAZYPRUNE_AVX2_F16C_INLINE static integers all_bytes(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats all(float x) { return _mm256_set1_ps(x); }
  LAZYPRUNE_AVX2_F16C_INLINE static integers bits_and(integers a, integers b) { return _mm256_and_si256(a, b); }
  LAZYPRUNE_AVX2_F16C_INLINE static integers bits_or(integers a, integers b) { return _mm256_or_si256(a, b); }
  LAZYPRUNE_AVX2_F16C_INLINE static integers exclusive_or(integers a, integers b) { return _mm256_xor_si256(a, b); }
  /// Shifts integers of 16 bits.
  template <int Count>
  LAZYPRUNE_AVX2_F16C_INLINE static integers shift_left(integers a) {
    return _mm256_slli_epi16(a, Count);
  }
  template <int Count>
  LAZYPRUNE_AVX2_F16C_INLINE static integers shift_right(integers a) {
    return _mm256_srli_epi16(a, Count);
  }
  /// Returns table[i] for each byte i.
  LAZYPRUNE_AVX2_F16C_INLINE static integers look_up(const std::uint8_t* table, integers bytes) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))), bytes);
  }
  /// Multiplies integers of 16 bits, and adds two neighbouring products.
  LAZYPRUNE_AVX2_F16C_INLINE static integers multiply_pairs(integers a, integers b) { return _mm256_madd_epi16(a, b); }

  /// Adds four neighbouring products of weights and activations.
  template <bool Signs>
  LAZYPRUNE_AVX2_F16C_INLINE static integers add_products(integers sums, integers weights, integers x) {
    const __m256i pairs =
        Signs ? _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights)) : _mm256_maddubs_epi16(weights, x);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }

  LAZYPRUNE_AVX2_F16C_INLINE static floats to_floats(integers a) { return _mm256_cvtepi32_ps(a); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load_halves(const std::byte* from) { return avx2::load_halves(from); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load_bytes(const std::byte* from) { return to_floats(avx2::load_bytes(from)); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load_signed_bytes(const std::byte* from) { return to_floats(avx2::load_signed_bytes(from)); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load_floats(const float* from) { return _mm256_loadu_ps(from); }
  LAZYPRUNE_AVX2_F16C_INLINE static void store(std::byte* to, integers a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a); }
  LAZYPRUNE_AVX2_F16C_INLINE static void store(float* to, floats a) { _mm256_storeu_ps(to, a); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats multiply(floats a, floats b) { return _mm256_mul_ps(a, b); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats multiply_add(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats subtract_product(floats a, floats b, floats c) { return _mm256_fnmadd_ps(a, b, c); }
};

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX2_F16C
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX2_F16C_INLINE
#include <lazyprune/backend/cpu/kernels/shared/int8_product.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

/// Rounds a block of a row to 8 bits, see int8_rows.hpp.
LAZYPRUNE_AVX2 inline void pack_int8_block(const float* x, const int8_block& block, std::size_t row, std::byte* packed) {
  __m256 numbers[4];
  __m256i largest = _mm256_setzero_si256();  // bits of absolute values have the order of the values, and those of NaN are the largest
  for (std::size_t i = 0; i < 4; ++i) {
    numbers[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(numbers[i]), _mm256_set1_epi32(0x7fffffff)));
  }
  __m128i some = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  some = _mm_max_epu32(some, _mm_shuffle_epi32(some, 0x4e));
  some = _mm_max_epu32(some, _mm_shuffle_epi32(some, 0xb1));
  const float most = _mm_cvtss_f32(_mm_castsi128_ps(some)), scale = most / block.most;
  __m256i codes = _mm256_setzero_si256();
  if (most >= block.least && most <= std::numeric_limits<float>::max()) {
    const __m256 inverse = _mm256_set1_ps(block.most / most);
    __m256i rounded[4];
    for (std::size_t i = 0; i < 4; ++i) rounded[i] = _mm256_cvtps_epi32(_mm256_mul_ps(numbers[i], inverse));
    const __m256i first = _mm256_packs_epi32(rounded[0], rounded[1]), last = _mm256_packs_epi32(rounded[2], rounded[3]);
    codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));  // of four codes each; the upper half has the last 16 codes
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
  const std::int16_t both[2] = {static_cast<std::int16_t>(_mm256_cvtsi256_si32(sums)),
                                static_cast<std::int16_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1)))};
  std::uint32_t quads[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(quads), codes);
  for (std::size_t q = 0; q < block.quads; ++q) std::memcpy(packed + block.codes(q, row), quads + q, sizeof *quads);
  std::memcpy(packed + block.scale(row), &scale, sizeof scale);
  std::memcpy(packed + block.sums(row), both, sizeof both);
}

LAZYPRUNE_AVX2 inline void pack_int8(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth,
                                     std::byte* packed) {
  const int8_block block{rows};
  for (std::size_t k = 0; k < depth; k += block.inputs, packed += block.bytes())
    for (std::size_t r = 0; r < rows; ++r) {
      const float* const from = x + r * stride + k;
      if (k + block.inputs <= inputs) {
        pack_int8_block(from, block, r, packed);
      } else {
        float some[int8_block::inputs] = {};
        if (k < inputs) std::copy_n(from, inputs - k, some);
        pack_int8_block(some, block, r, packed);
      }
    }
}

inline constexpr product_kernel int8 = [] {
  product_kernel k = with_int8_rows(bf16);
  k.strip = lanes::int8_strip;
  k.ahead = int8_ahead;
  k.pack = pack_int8;
  k.unpack = unpack_int8;
  k.multiply = multiply_int8;
  k.panel_rows = lanes::panel_rows;
  k.multiply_panels = multiply_panels;
  return k;
}();

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
