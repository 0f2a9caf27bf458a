// SPDX-License-Identifier: MIT
// Conversion of stored numbers from one type to another, eight at a time. The results have the bits that tensor.hpp's functions give,
// except that the bits of a NaN may differ. The conversion is as fast as memory.
#pragma once

#include <cstdint>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/tensor.hpp>

#define LAZYPRUNE_AVX2_CONVERT LAZYPRUNE_TARGET("avx2,f16c")
#define LAZYPRUNE_AVX2_CONVERT_INLINE LAZYPRUNE_AVX2_CONVERT __attribute__((always_inline)) inline

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

/// Loads eight numbers from unaligned memory.
template <dtype From>
LAZYPRUNE_AVX2_CONVERT_INLINE __m256 load_as_float(const std::byte* from) {
  if constexpr (From == dtype::f32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  } else {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    if constexpr (From == dtype::f16)
      return _mm256_cvtph_ps(bits);
    else
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

LAZYPRUNE_AVX2_CONVERT_INLINE void store_as(float* to, __m256 numbers) { _mm256_storeu_ps(to, numbers); }

/// Rounds to bf16: to the nearest number, ties to even. NaN stays NaN.
LAZYPRUNE_AVX2_CONVERT_INLINE void store_as(std::uint16_t* to, __m256 numbers) {
  const __m256i bits = _mm256_castps_si256(numbers), kept = _mm256_srli_epi32(bits, 16), odd = _mm256_and_si256(kept, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(numbers, numbers, _CMP_UNORD_Q));
  const __m256i result = _mm256_blendv_epi8(rounded, _mm256_or_si256(kept, _mm256_set1_epi32(0x40)), nan);
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(result, result), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(halves));
}

/// Rounds `count` numbers to f16: to the nearest number, ties to even. `count` is a multiple of eight.
LAZYPRUNE_AVX2_CONVERT inline void round_to_f16(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
}

/// Converts `count` numbers. `count` is a multiple of eight.
template <dtype From, class To>
LAZYPRUNE_AVX2_CONVERT inline void convert(const std::byte* from, std::size_t count, To* to) {
  for (std::size_t i = 0; i < count; i += 8) store_as(to + i, load_as_float<From>(from + i * (From == dtype::f32 ? 4 : 2)));
}

/// Does the same for numbers of type `type`.
template <class To>
LAZYPRUNE_AVX2_CONVERT inline void convert(dtype type, const std::byte* from, std::size_t count, To* to) {
  if (type == dtype::f32) return convert<dtype::f32>(from, count, to);
  if (type == dtype::f16) return convert<dtype::f16>(from, count, to);
  return convert<dtype::bf16>(from, count, to);
}

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
