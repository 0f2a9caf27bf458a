// SPDX-License-Identifier: MIT
// Unpacking of keys and values to tiles of f32 in AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx2/unpack.hpp>
#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

struct kv_lanes {
  using floats = __m256;
  static constexpr std::size_t size = 8;

  LAZYPRUNE_AVX2_F16C_INLINE static floats all(float x) { return _mm256_set1_ps(x); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load(const float* from) { return _mm256_loadu_ps(from); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load_halves(const std::byte* from) { return avx2::load_halves(from); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats load_codes(const std::byte* from) { return _mm256_cvtepi32_ps(load_signed_bytes(from)); }
  LAZYPRUNE_AVX2_F16C_INLINE static floats multiply(floats a, floats b) { return _mm256_mul_ps(a, b); }
  LAZYPRUNE_AVX2_F16C_INLINE static void store(float* to, floats a) { _mm256_storeu_ps(to, a); }
};

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX2_F16C
#include <lazyprune/backend/cpu/kernels/shared/unpack_kv.inc>
#undef LAZYPRUNE_KERNEL

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
