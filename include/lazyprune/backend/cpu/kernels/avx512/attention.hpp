// SPDX-License-Identifier: MIT
// The running softmax in AVX-512: the bits of AVX2.
#pragma once

#include <limits>

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

/// As in AVX2, bit for bit.
LAZYPRUNE_AVX512_INLINE __m512 weight_of(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(weight_limit), x);
  const __m512 n = powers_of_two(x);
  const __m512i power = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
  return _mm512_mul_ps(exp_of_rest(x, n), _mm512_castsi512_ps(power));
}

/// As in AVX2, bit for bit.
LAZYPRUNE_AVX512_INLINE __m512 tanh(__m512 x) {
  const __m512 limit = _mm512_set1_ps(tanh_limit), one = _mm512_set1_ps(1.0f);
  x = _mm512_min_ps(limit, _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), limit), x));
  x = _mm512_add_ps(x, x);
  const __m512 n = powers_of_two(x);
  const __m512 power = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
  const __m512 e = _mm512_fmadd_ps(exp_of_rest_less_one(x, n), power, _mm512_sub_ps(power, one));
  return _mm512_div_ps(e, _mm512_add_ps(e, _mm512_add_ps(one, one)));
}

LAZYPRUNE_AVX512 inline void soft_cap(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, float cap) {
  for (std::size_t t = 0; t < tiles; ++t)
    for (float* at = scores + t * tile_floats; at != scores + t * tile_floats + rows * tile_outputs; at += 16)
      _mm512_storeu_ps(at, _mm512_mul_ps(tanh(_mm512_loadu_ps(at)), _mm512_set1_ps(cap)));
}

/// 16 rows at most: what depends on a row alone is computed for all of them in the lanes of one register.
LAZYPRUNE_AVX512_INLINE void soften_rows(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows,
                                         const std::int32_t* ranks, const rank_range* seen, float* largest, float* mass, float* fade,
                                         float* weights, std::size_t stride) {
  const __m512 none = _mm512_set1_ps(no_score);
  __m512 most[16];
#pragma GCC unroll 16
  for (__m512& of_row : most) of_row = none;
  for (std::size_t r = 0; r < rows; ++r) {
    __m512 of_row = none;
    const rank_test test(seen[r]);
    const __m512i offset = _mm512_set1_epi32(test.offset), limit = _mm512_set1_epi32(test.limit);
    for (std::size_t t = 0; t < tiles; ++t)
#pragma GCC unroll 2
      for (std::size_t i = 0; i < tile_outputs; i += 16) {
        float* at = scores + t * tile_floats + r * tile_outputs + i;
        __m512 score = _mm512_loadu_ps(at);
        if (ranks) {
          __m512i rank = _mm512_loadu_si512(ranks + t * tile_outputs + i);
          if (test.offset != 0) rank = _mm512_add_epi32(rank, offset);
          score = _mm512_mask_blend_ps(_mm512_cmpgt_epi32_mask(limit, rank), none, score);
          _mm512_storeu_ps(at, score);
        }
        of_row = _mm512_max_ps(of_row, score);
      }
    most[r] = of_row;
  }
  transpose(most);
#pragma GCC unroll 4
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) most[i] = _mm512_max_ps(most[i], most[i + half]);

  const __m512 before = load_some(largest, rows), now = _mm512_max_ps(most[0], before);
  const __m512 shift = _mm512_max_ps(now, _mm512_set1_ps(std::numeric_limits<float>::lowest()));  // finite: nothing less nothing is no NaN
  const __m512 old = weight_of(_mm512_sub_ps(before, shift));
  float shifts[16], olds[16];
  _mm512_storeu_ps(shifts, shift);
  _mm512_storeu_ps(olds, old);
  _mm512_mask_storeu_ps(largest, mask_of(rows), now);
  _mm512_mask_storeu_ps(fade, mask_of(rows), old);
  for (std::size_t r = 0; r < rows; ++r, scores += tile_outputs, weights += stride, mass += mass_lanes) {
    __m512 sum = _mm512_setzero_ps();
    for (std::size_t t = 0; t < tiles; ++t)
#pragma GCC unroll 2
      for (std::size_t i = 0; i < tile_outputs; i += 16) {
        const __m512 weight = weight_of(_mm512_sub_ps(_mm512_loadu_ps(scores + t * tile_floats + i), _mm512_set1_ps(shifts[r])));
        sum = _mm512_add_ps(sum, weight);
        _mm512_storeu_ps(weights + t * tile_outputs + i, weight);
      }
    _mm512_storeu_ps(mass, _mm512_fmadd_ps(_mm512_loadu_ps(mass), _mm512_set1_ps(olds[r]), sum));
  }
}

LAZYPRUNE_AVX512 inline void soften(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const std::int32_t* ranks,
                                    const rank_range* seen, float* largest, float* mass, float* fade, float* weights, std::size_t stride) {
  for (std::size_t r = 0; r < rows; r += 16)
    soften_rows(scores + r * tile_outputs, tile_floats, tiles, rows - r < 16 ? rows - r : 16, ranks, seen + r, largest + r,
                mass + r * mass_lanes, fade + r, weights + r * stride, stride);
}

LAZYPRUNE_AVX512 inline void scale(float* sums, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const float* by) {
  for (std::size_t t = 0; t < tiles; ++t)
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (std::size_t i = 0; i < tile_outputs; i += 16) {
        float* at = sums + t * tile_floats + r * tile_outputs + i;
        _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), _mm512_set1_ps(by[r])));
      }
}

LAZYPRUNE_AVX512 inline void finish(float* row, std::size_t count, float shift, float by) {
  const __m512 shifts = _mm512_set1_ps(shift), factor = _mm512_set1_ps(by);
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t left = count - i;
    const __m512 value = _mm512_mul_ps(weight_of(_mm512_sub_ps(load_some(row + i, left), shifts)), factor);
    _mm512_mask_storeu_ps(row + i, mask_of(left), value);
  }
}

inline constexpr attention_kernel attention{.soft_cap = soft_cap, .soften = soften, .scale = scale, .finish = finish};

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
