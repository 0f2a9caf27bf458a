// SPDX-License-Identifier: MIT
// Unpacking of keys and values to tiles of f32 in AVX-512.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512/vec.hpp>
#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

struct kv_lanes {
  using floats = __m512;
  static constexpr std::size_t size = 16;

  LAZYPRUNE_AVX512_INLINE static floats all(float x) { return _mm512_set1_ps(x); }
  LAZYPRUNE_AVX512_INLINE static floats load(const float* from) { return _mm512_loadu_ps(from); }
  LAZYPRUNE_AVX512_INLINE static floats load_halves(const std::byte* from) { return avx512::load_halves(from); }
  LAZYPRUNE_AVX512_INLINE static floats load_codes(const std::byte* from) { return load_bytes<true>(from); }
  LAZYPRUNE_AVX512_INLINE static floats multiply(floats a, floats b) { return _mm512_mul_ps(a, b); }
  LAZYPRUNE_AVX512_INLINE static void store(float* to, floats a) { _mm512_storeu_ps(to, a); }
};

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX512
#include <lazyprune/backend/cpu/kernels/shared/unpack_kv.inc>
#undef LAZYPRUNE_KERNEL

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
