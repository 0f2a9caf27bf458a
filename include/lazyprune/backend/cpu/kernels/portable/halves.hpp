// SPDX-License-Identifier: MIT
// Conversion from f16 on any processor.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

/// Converts 32 numbers from f16.
inline void widen_halves(const std::byte* from, float* to) {
#if defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128(), infinity = _mm_set1_epi32(0x7f80'0000);
  for (std::size_t n = 0; n < tile_outputs; n += 4) {
    const __m128i upper = _mm_unpacklo_epi16(zero, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 2 * n)));
    const __m128i magnitude = _mm_srli_epi32(_mm_slli_epi32(upper, 1), 4), sign = _mm_and_si128(upper, _mm_set1_epi32(INT32_MIN));
    // The exponents of f16 have a bias of 15, and those of float of 127. The largest one means infinity and NaN.
    const __m128i finite = _mm_castps_si128(_mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112f)));
    const __m128i largest = _mm_and_si128(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x0f7f'ffff)), infinity);
    _mm_storeu_ps(to + n, _mm_castsi128_ps(_mm_or_si128(_mm_or_si128(finite, largest), sign)));
  }
#else
  for (std::size_t n = 0; n < tile_outputs; ++n) {
    std::uint16_t half;
    std::memcpy(&half, from + 2 * n, sizeof half);
    to[n] = float_of_f16(half);
  }
#endif
}

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
