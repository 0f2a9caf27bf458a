// SPDX-License-Identifier: MIT
// The running softmax in AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

LAZYPRUNE_AVX2_INLINE float largest_lane(__m256 v) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

/// e^x for x up to 0: 0 where it is less than 2^-126.5.
LAZYPRUNE_AVX2_INLINE __m256 weight_of(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(weight_limit), x);  // NaN stays
  const __m256 n = powers_of_two(x);
  const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(exp_of_rest(x, n), _mm256_castsi256_ps(power));
}

/// With e = e^2x - 1, tanh(x) is e / (e + 2). Near 0, e is as exact as its polynomial: nothing is taken from something as large.
LAZYPRUNE_AVX2_INLINE __m256 tanh(__m256 x) {
  const __m256 limit = _mm256_set1_ps(tanh_limit), one = _mm256_set1_ps(1.0f);
  x = _mm256_min_ps(limit, _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), x));  // NaN stays
  x = _mm256_add_ps(x, x);
  const __m256 n = powers_of_two(x);
  const __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  const __m256 e = _mm256_fmadd_ps(exp_of_rest_less_one(x, n), power, _mm256_sub_ps(power, one));
  return _mm256_div_ps(e, _mm256_add_ps(e, _mm256_add_ps(one, one)));
}

LAZYPRUNE_AVX2 inline void soft_cap(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, float cap) {
  for (std::size_t t = 0; t < tiles; ++t)
    for (float* at = scores + t * tile_floats; at != scores + t * tile_floats + rows * tile_outputs; at += 8)
      _mm256_storeu_ps(at, _mm256_mul_ps(tanh(_mm256_loadu_ps(at)), _mm256_set1_ps(cap)));
}

LAZYPRUNE_AVX2 inline void soften(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const std::int32_t* ranks,
                                  const rank_range* seen, float* largest, float* mass, float* fade, float* weights, std::size_t stride) {
  const __m256 none = _mm256_set1_ps(no_score);
  for (std::size_t r = 0; r < rows; ++r, scores += tile_outputs, weights += stride, mass += mass_lanes) {
    __m256 most[2] = {none, none};
    const rank_test test(seen[r]);
    const __m256i offset = _mm256_set1_epi32(test.offset), limit = _mm256_set1_epi32(test.limit);
    for (std::size_t t = 0; t < tiles; ++t)
#pragma GCC unroll 4
      for (std::size_t i = 0; i < tile_outputs; i += 8) {
        float* at = scores + t * tile_floats + i;
        __m256 score = _mm256_loadu_ps(at);
        if (ranks) {
          __m256i rank = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ranks + t * tile_outputs + i));
          if (test.offset != 0) rank = _mm256_add_epi32(rank, offset);
          score = _mm256_blendv_ps(none, score, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, rank)));
          _mm256_storeu_ps(at, score);
        }
        most[i / 8 % 2] = _mm256_max_ps(most[i / 8 % 2], score);
      }
    const float here = largest_lane(_mm256_max_ps(most[0], most[1])), before = largest[r];
    const float now = here > before ? here : before, shift = now == no_score ? 0.0f : now;
    const __m256 old = weight_of(_mm256_set1_ps(before - shift)), shifts = _mm256_set1_ps(shift);
    largest[r] = now;
    fade[r] = _mm256_cvtss_f32(old);
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (std::size_t t = 0; t < tiles; ++t)
#pragma GCC unroll 4
      for (std::size_t i = 0; i < tile_outputs; i += 8) {
        const __m256 weight = weight_of(_mm256_sub_ps(_mm256_loadu_ps(scores + t * tile_floats + i), shifts));
        sums[i / 8 % 2] = _mm256_add_ps(sums[i / 8 % 2], weight);
        _mm256_storeu_ps(weights + t * tile_outputs + i, weight);
      }
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) _mm256_storeu_ps(mass + 8 * i, _mm256_fmadd_ps(_mm256_loadu_ps(mass + 8 * i), old, sums[i]));
  }
}

LAZYPRUNE_AVX2 inline void scale(float* sums, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const float* by) {
  for (std::size_t t = 0; t < tiles; ++t)
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (std::size_t i = 0; i < tile_outputs; i += 8) {
        float* at = sums + t * tile_floats + r * tile_outputs + i;
        _mm256_storeu_ps(at, _mm256_mul_ps(_mm256_loadu_ps(at), _mm256_set1_ps(by[r])));
      }
}

LAZYPRUNE_AVX2 inline void finish(float* row, std::size_t count, float shift, float by) {
  const __m256 shifts = _mm256_set1_ps(shift), factor = _mm256_set1_ps(by);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(row + i, _mm256_mul_ps(weight_of(_mm256_sub_ps(_mm256_loadu_ps(row + i), shifts)), factor));
  if (i == count) return;
  float rest[8] = {};
  for (std::size_t j = 0; i + j < count; ++j) rest[j] = row[i + j];
  _mm256_storeu_ps(rest, _mm256_mul_ps(weight_of(_mm256_sub_ps(_mm256_loadu_ps(rest), shifts)), factor));
  for (std::size_t j = 0; i + j < count; ++j) row[i + j] = rest[j];
}

inline constexpr attention_kernel attention{.soft_cap = soft_cap, .soften = soften, .scale = scale, .finish = finish};

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
