// SPDX-License-Identifier: MIT
// Norms, rotations and sums in AVX-512: the bits of AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>
#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

LAZYPRUNE_AVX512 inline void rms_norm(const float* x, const float* weight, std::size_t count, double epsilon, float* out) {
  __m512 squares[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (std::size_t i = 0; i < count; i += square_lanes)
#pragma GCC unroll 2
    for (std::size_t j = 0; j < 2; ++j) {
      const std::size_t at = i + 16 * j;
      const __m512 value = load_some(x + at, at < count ? count - at : 0);
      squares[j] = _mm512_fmadd_ps(value, value, squares[j]);
    }
  float lanes[square_lanes];
  _mm512_storeu_ps(lanes, squares[0]);
  _mm512_storeu_ps(lanes + 16, squares[1]);
  const __m512 scale = _mm512_set1_ps(rms_scale(lanes, count, epsilon));
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t left = count - i;
    const __m512 scaled = _mm512_mul_ps(load_some(x + i, left), scale);
    _mm512_mask_storeu_ps(out + i, mask_of(left), _mm512_mul_ps(scaled, load_some(weight + i, left)));
  }
}

LAZYPRUNE_AVX512 inline void rotate(float* a, float* b, const float* cosines, const float* sines, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t left = count - i;
    const __m512 x = load_some(a + i, left), y = load_some(b + i, left);
    const __m512 cosine = load_some(cosines + i, left), sine = load_some(sines + i, left);
    _mm512_mask_storeu_ps(a + i, mask_of(left), _mm512_fnmadd_ps(y, sine, _mm512_mul_ps(x, cosine)));
    _mm512_mask_storeu_ps(b + i, mask_of(left), _mm512_fmadd_ps(x, sine, _mm512_mul_ps(y, cosine)));
  }
}

LAZYPRUNE_AVX512 inline void add(const float* x, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t left = count - i;
    _mm512_mask_storeu_ps(to + i, mask_of(left), _mm512_add_ps(load_some(to + i, left), load_some(x + i, left)));
  }
}

inline constexpr elementwise_kernel elementwise{.rms_norm = rms_norm, .rotate = rotate, .add = add};

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
