// SPDX-License-Identifier: MIT
// Norms, rotations and sums in AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>
#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

alignas(64) inline constexpr std::int32_t lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

/// Its first `left` lanes are set, eight at most.
LAZYPRUNE_AVX2_INLINE __m256i mask_of(std::size_t left) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane_masks + (left < 8 ? 8 - left : 0)));
}

/// x[0..7], and zeros from `left` on.
LAZYPRUNE_AVX2_INLINE __m256 load_some(const float* x, std::size_t left) {
  return left >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, mask_of(left));
}

LAZYPRUNE_AVX2_INLINE void store_some(float* to, std::size_t left, __m256 v) {
  left >= 8 ? _mm256_storeu_ps(to, v) : _mm256_maskstore_ps(to, mask_of(left), v);
}

LAZYPRUNE_AVX2 inline void rms_norm(const float* x, const float* weight, std::size_t count, double epsilon, float* out) {
  __m256 squares[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  std::size_t i = 0;
  for (; i + square_lanes <= count; i += square_lanes)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
      const __m256 value = _mm256_loadu_ps(x + i + 8 * j);
      squares[j] = _mm256_fmadd_ps(value, value, squares[j]);
    }
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    if (i + 8 * j >= count) break;
    const __m256 value = load_some(x + i + 8 * j, count - i - 8 * j);
    squares[j] = _mm256_fmadd_ps(value, value, squares[j]);
  }
  float lanes[square_lanes];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) _mm256_storeu_ps(lanes + 8 * j, squares[j]);
  const __m256 scale = _mm256_set1_ps(rms_scale(lanes, count, epsilon));
  for (i = 0; i < count; i += 8) {
    const std::size_t left = count - i;
    store_some(out + i, left, _mm256_mul_ps(_mm256_mul_ps(load_some(x + i, left), scale), load_some(weight + i, left)));
  }
}

LAZYPRUNE_AVX2 inline void rotate(float* a, float* b, const float* cosines, const float* sines, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8) {
    const std::size_t left = count - i;
    const __m256 x = load_some(a + i, left), y = load_some(b + i, left);
    const __m256 cosine = load_some(cosines + i, left), sine = load_some(sines + i, left);
    store_some(a + i, left, _mm256_fnmadd_ps(y, sine, _mm256_mul_ps(x, cosine)));
    store_some(b + i, left, _mm256_fmadd_ps(x, sine, _mm256_mul_ps(y, cosine)));
  }
}

LAZYPRUNE_AVX2 inline void add(const float* x, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; i += 8) {
    const std::size_t left = count - i;
    store_some(to + i, left, _mm256_add_ps(load_some(to + i, left), load_some(x + i, left)));
  }
}

inline constexpr elementwise_kernel elementwise{.rms_norm = rms_norm, .rotate = rotate, .add = add};

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
