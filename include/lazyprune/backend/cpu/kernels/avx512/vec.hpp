// SPDX-License-Identifier: MIT
// The registers of AVX-512, as the shared kernels (shared/) use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <lazyprune/backend/cpu/isa.hpp>

#define LAZYPRUNE_AVX512 LAZYPRUNE_TARGET("avx512f,avx512bw,avx512dq,avx512vl")
#define LAZYPRUNE_AVX512_INLINE LAZYPRUNE_AVX512 __attribute__((always_inline)) inline
#define LAZYPRUNE_AVX512_BF16 LAZYPRUNE_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#define LAZYPRUNE_AVX512_BF16_INLINE LAZYPRUNE_AVX512_BF16 __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

LAZYPRUNE_AVX512_INLINE __m512 load_halves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

/// Loads 16 bytes as floats.
template <bool Signed>
LAZYPRUNE_AVX512_INLINE __m512 load_bytes(const void* from) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return _mm512_cvtepi32_ps(Signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

/// Sixteen floats.
struct vec {
  using floats = __m512;
  using integers = __m512i;
  static constexpr std::size_t size = 16;
  static constexpr std::size_t squares = 2;   // vectors that a norm sums at once; a norm has 32 lanes of squares
  static constexpr std::size_t rows = 16;     // rows that soften_rows computes at once, at most
  static constexpr std::size_t chains = 1;    // chains of maxima in a row
  static constexpr bool fades_first = false;  // a softmax scales the mass in its last step, a fused multiply-add

  LAZYPRUNE_AVX512_INLINE static floats all(float x) { return _mm512_set1_ps(x); }
  LAZYPRUNE_AVX512_INLINE static floats load(const float* x) { return _mm512_loadu_ps(x); }
  LAZYPRUNE_AVX512_INLINE static void store(float* to, floats v) { _mm512_storeu_ps(to, v); }

  /// Returns x[0..15], with zeros from index `left` on.
  LAZYPRUNE_AVX512_INLINE static floats load_some(const float* x, std::size_t left) { return _mm512_maskz_loadu_ps(mask_of(left), x); }
  /// Stores the first `left` lanes.
  LAZYPRUNE_AVX512_INLINE static void store_some(float* to, std::size_t left, floats v) { _mm512_mask_storeu_ps(to, mask_of(left), v); }

  LAZYPRUNE_AVX512_INLINE static floats add(floats a, floats b) { return _mm512_add_ps(a, b); }
  LAZYPRUNE_AVX512_INLINE static floats subtract(floats a, floats b) { return _mm512_sub_ps(a, b); }
  LAZYPRUNE_AVX512_INLINE static floats multiply(floats a, floats b) { return _mm512_mul_ps(a, b); }
  LAZYPRUNE_AVX512_INLINE static floats divide(floats a, floats b) { return _mm512_div_ps(a, b); }
  LAZYPRUNE_AVX512_INLINE static floats negative(floats a) { return _mm512_sub_ps(_mm512_setzero_ps(), a); }
  LAZYPRUNE_AVX512_INLINE static floats multiply_add(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }  // a b + c
  LAZYPRUNE_AVX512_INLINE static floats negative_multiply_add(floats a, floats b, floats c) {
    return _mm512_fnmadd_ps(a, b, c);
  }  // c - a b
  // `least` and `most` return the second operand if either operand is NaN.
  LAZYPRUNE_AVX512_INLINE static floats least(floats a, floats b) { return _mm512_min_ps(a, b); }
  LAZYPRUNE_AVX512_INLINE static floats most(floats a, floats b) { return _mm512_max_ps(a, b); }

  /// Replaces -infinity by a finite number.
  LAZYPRUNE_AVX512_INLINE static floats not_minus_infinity(floats a) { return most(a, all(std::numeric_limits<float>::lowest())); }

  LAZYPRUNE_AVX512_INLINE static floats nearest(floats a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  /// Returns 2^n for whole n from -126 to 127, and 0 for n = -127.
  LAZYPRUNE_AVX512_INLINE static floats power_of_two(floats n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
  }
  /// Returns 2^n a.
  LAZYPRUNE_AVX512_INLINE static floats times_power_of_two(floats a, floats n) { return _mm512_scalef_ps(a, n); }

  LAZYPRUNE_AVX512_INLINE static integers all_integers(std::int32_t x) { return _mm512_set1_epi32(x); }
  LAZYPRUNE_AVX512_INLINE static integers load_integers(const std::int32_t* x) { return _mm512_loadu_si512(x); }
  LAZYPRUNE_AVX512_INLINE static integers add_integers(integers a, integers b) { return _mm512_add_epi32(a, b); }
  /// Returns `yes` in the lanes where a > b, and `no` in the others.
  LAZYPRUNE_AVX512_INLINE static floats where_greater(integers a, integers b, floats yes, floats no) {
    return _mm512_mask_blend_ps(_mm512_cmpgt_epi32_mask(a, b), no, yes);
  }

  /// Swaps v[i][j] and v[j][i].
  LAZYPRUNE_AVX512_INLINE static void transpose(floats (&v)[16]) {
    __m512 pairs[16], fours[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      fours[i] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      fours[i + 1] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      fours[i + 2] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      fours[i + 3] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512 even_top = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0x88),
                   even_bottom = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0x88),
                   odd_top = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0xdd),
                   odd_bottom = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0xdd);
      v[i] = _mm512_shuffle_f32x4(even_top, even_bottom, 0x88);
      v[i + 4] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0x88);
      v[i + 8] = _mm512_shuffle_f32x4(even_top, even_bottom, 0xdd);
      v[i + 12] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0xdd);
    }
  }

  /// Returns the number of each row, in the row's lane.
  LAZYPRUNE_AVX512_INLINE static floats load_rows(const float* x, std::size_t count) { return load_some(x, count); }
  LAZYPRUNE_AVX512_INLINE static void store_rows(float* to, std::size_t count, floats v) { store_some(to, count, v); }

  /// Returns the largest lane of v[r] in lane r, for each r.
  LAZYPRUNE_AVX512_INLINE static floats largest_lanes(floats (&v)[16]) {
    transpose(v);
#pragma GCC unroll 4
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) v[i] = most(v[i], v[i + half]);
    return v[0];
  }

 private:
  /// Returns the mask of the first `left` lanes, 16 at most.
  LAZYPRUNE_AVX512_INLINE static __mmask16 mask_of(std::size_t left) {
    return static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xffffu);
  }
};

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
