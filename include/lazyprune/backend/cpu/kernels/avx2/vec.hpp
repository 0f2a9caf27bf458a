// SPDX-License-Identifier: MIT
// The registers of AVX2, as the shared kernels (shared/) use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <lazyprune/backend/cpu/isa.hpp>

#define LAZYPRUNE_AVX2 LAZYPRUNE_TARGET("avx2,fma")
#define LAZYPRUNE_AVX2_INLINE LAZYPRUNE_AVX2 __attribute__((always_inline)) inline

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

/// Eight floats.
struct vec {
  using floats = __m256;
  using integers = __m256i;
  static constexpr std::size_t size = 8;
  static constexpr std::size_t squares = 4;   // vectors that a norm sums at once; a norm has 32 lanes of squares
  static constexpr std::size_t rows = 1;      // rows that soften_rows computes at once, at most
  static constexpr std::size_t chains = 2;    // chains of maxima in a row: with only one, each maximum would wait for the one before
  static constexpr bool fades_first = false;  // a softmax scales the mass in its last step, a fused multiply-add

  LAZYPRUNE_AVX2_INLINE static floats all(float x) { return _mm256_set1_ps(x); }
  LAZYPRUNE_AVX2_INLINE static floats load(const float* x) { return _mm256_loadu_ps(x); }
  LAZYPRUNE_AVX2_INLINE static void store(float* to, floats v) { _mm256_storeu_ps(to, v); }

  /// Returns x[0..7], with zeros from index `left` on.
  LAZYPRUNE_AVX2_INLINE static floats load_some(const float* x, std::size_t left) {
    return left >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, mask_of(left));
  }
  /// Stores the first `left` lanes.
  LAZYPRUNE_AVX2_INLINE static void store_some(float* to, std::size_t left, floats v) {
    left >= 8 ? _mm256_storeu_ps(to, v) : _mm256_maskstore_ps(to, mask_of(left), v);
  }

  LAZYPRUNE_AVX2_INLINE static floats add(floats a, floats b) { return _mm256_add_ps(a, b); }
  LAZYPRUNE_AVX2_INLINE static floats subtract(floats a, floats b) { return _mm256_sub_ps(a, b); }
  LAZYPRUNE_AVX2_INLINE static floats multiply(floats a, floats b) { return _mm256_mul_ps(a, b); }
  LAZYPRUNE_AVX2_INLINE static floats divide(floats a, floats b) { return _mm256_div_ps(a, b); }
  LAZYPRUNE_AVX2_INLINE static floats negative(floats a) { return _mm256_sub_ps(_mm256_setzero_ps(), a); }
  LAZYPRUNE_AVX2_INLINE static floats multiply_add(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }            // a b + c
  LAZYPRUNE_AVX2_INLINE static floats negative_multiply_add(floats a, floats b, floats c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a b
  // `least` and `most` return the second operand if either operand is NaN.
  LAZYPRUNE_AVX2_INLINE static floats least(floats a, floats b) { return _mm256_min_ps(a, b); }
  LAZYPRUNE_AVX2_INLINE static floats most(floats a, floats b) { return _mm256_max_ps(a, b); }

  /// Replaces -infinity by 0. `a` has the number of one row in all lanes. The branch is seldom taken, and a vector comparison would add
  /// latency.
  LAZYPRUNE_AVX2_INLINE static floats not_minus_infinity(floats a) {
    return _mm256_cvtss_f32(a) == -std::numeric_limits<float>::infinity() ? _mm256_setzero_ps() : a;
  }

  LAZYPRUNE_AVX2_INLINE static floats nearest(floats a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  /// Returns 2^n for whole n from -126 to 127, and 0 for n = -127.
  LAZYPRUNE_AVX2_INLINE static floats power_of_two(floats n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  }
  /// Returns 2^n a. Multiplies twice, because 2^n itself may be out of range.
  LAZYPRUNE_AVX2_INLINE static floats times_power_of_two(floats a, floats n) {
    const __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1), one = _mm256_set1_epi32(0x3f800000);
    const __m256 product = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_add_epi32(one, _mm256_slli_epi32(half, 23))));
    return _mm256_mul_ps(product, _mm256_castsi256_ps(_mm256_add_epi32(one, _mm256_slli_epi32(_mm256_sub_epi32(power, half), 23))));
  }

  LAZYPRUNE_AVX2_INLINE static integers all_integers(std::int32_t x) { return _mm256_set1_epi32(x); }
  LAZYPRUNE_AVX2_INLINE static integers load_integers(const std::int32_t* x) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  }
  LAZYPRUNE_AVX2_INLINE static integers add_integers(integers a, integers b) { return _mm256_add_epi32(a, b); }
  /// Returns `yes` in the lanes where a > b, and `no` in the others.
  LAZYPRUNE_AVX2_INLINE static floats where_greater(integers a, integers b, floats yes, floats no) {
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)));
  }

  /// Swaps v[i][j] and v[j][i].
  LAZYPRUNE_AVX2_INLINE static void transpose(floats (&v)[8]) {
    __m256 pairs[8], fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
      pairs[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
      v[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
  }

  /// Returns the number of one row, in all lanes.
  LAZYPRUNE_AVX2_INLINE static floats load_rows(const float* x, std::size_t) { return all(*x); }
  LAZYPRUNE_AVX2_INLINE static void store_rows(float* to, std::size_t, floats v) { *to = _mm256_cvtss_f32(v); }

  /// Returns the largest lane, in all lanes.
  LAZYPRUNE_AVX2_INLINE static floats largest_lanes(const floats (&v)[1]) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v[0]), _mm256_extractf128_ps(v[0], 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm256_broadcastss_ps(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }

 private:
  alignas(64) static constexpr std::int32_t masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

  /// Returns the mask of the first `left` lanes, eight at most.
  LAZYPRUNE_AVX2_INLINE static __m256i mask_of(std::size_t left) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(masks + (left < 8 ? 8 - left : 0)));
  }
};

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
