// SPDX-License-Identifier: MIT
// Products of activations in 8 bits with quantized weights in AVX512-VNNI, with the bits of AVX2. A strip has up to 6 rows. For each 32
// inputs, the parts (product_kernel.hpp) take 12 registers, and the integer sums of a group another 12.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include <lazyprune/backend/cpu/kernels/avx2/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>

#define LAZYPRUNE_AVX512_VNNI LAZYPRUNE_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define LAZYPRUNE_AVX512_VNNI_INLINE LAZYPRUNE_AVX512_VNNI __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512_vnni {

/// Sixteen outputs.
struct lanes {
  using integers = __m512i;
  using floats = __m512;
  static constexpr std::size_t size = 16;
  static constexpr int int8_strip = 6, panel_rows = 4, whole_tile_rows = 6;
  static constexpr bool signs = false;

  LAZYPRUNE_AVX512_VNNI_INLINE static integers load(const std::byte* from) { return _mm512_loadu_si512(from); }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers all(std::int32_t x) { return _mm512_set1_epi32(x); }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers all_bytes(int x) {
    return _mm512_set1_epi32(static_cast<int>(static_cast<unsigned>(x) * 0x01010101u));
  }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats all(float x) { return _mm512_set1_ps(x); }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers bits_and(integers a, integers b) { return _mm512_and_si512(a, b); }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers bits_or(integers a, integers b) { return _mm512_or_si512(a, b); }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers exclusive_or(integers a, integers b) { return _mm512_xor_si512(a, b); }
  template <int Count>
  LAZYPRUNE_AVX512_VNNI_INLINE static integers shift_left(integers a) {
    return _mm512_slli_epi16(a, Count);
  }
  template <int Count>
  LAZYPRUNE_AVX512_VNNI_INLINE static integers shift_right(integers a) {
    return _mm512_srli_epi16(a, Count);
  }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers look_up(const std::uint8_t* table, integers bytes) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))), bytes);
  }
  LAZYPRUNE_AVX512_VNNI_INLINE static integers multiply_pairs(integers a, integers b) { return _mm512_madd_epi16(a, b); }
  template <bool>
  LAZYPRUNE_AVX512_VNNI_INLINE static integers add_products(integers sums, integers weights, integers x) {
    return _mm512_dpbusd_epi32(sums, weights, x);
  }

  LAZYPRUNE_AVX512_VNNI_INLINE static floats to_floats(integers a) { return _mm512_cvtepi32_ps(a); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats load_halves(const std::byte* from) { return avx512::load_halves(from); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats load_bytes(const std::byte* from) { return avx512::load_bytes<false>(from); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats load_signed_bytes(const std::byte* from) { return avx512::load_bytes<true>(from); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats load_floats(const float* from) { return _mm512_loadu_ps(from); }
  LAZYPRUNE_AVX512_VNNI_INLINE static void store(std::byte* to, integers a) { _mm512_storeu_si512(to, a); }
  LAZYPRUNE_AVX512_VNNI_INLINE static void store(float* to, floats a) { _mm512_storeu_ps(to, a); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats multiply(floats a, floats b) { return _mm512_mul_ps(a, b); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats multiply_add(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
  LAZYPRUNE_AVX512_VNNI_INLINE static floats subtract_product(floats a, floats b, floats c) { return _mm512_fnmadd_ps(a, b, c); }
};

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX512_VNNI
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX512_VNNI_INLINE
#include <lazyprune/backend/cpu/kernels/shared/int8_product.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr product_kernel int8 = [] {
  product_kernel k = with_int8_rows(avx512::bf16);
  k.strip = lanes::int8_strip;
  k.ahead = int8_ahead;
  k.pack = avx2::pack_int8;
  k.unpack = unpack_int8;
  k.multiply = multiply_int8;
  k.panel_rows = lanes::panel_rows;
  k.multiply_panels = multiply_panels;
  return k;
}();

}  // namespace avx512_vnni
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
