// SPDX-License-Identifier: MIT
// Products of activations in 8 bits with quantized weights in AVX-VNNI, with the bits of AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx2/int8_product.hpp>

#define LAZYPRUNE_AVX_VNNI LAZYPRUNE_TARGET("avx2,fma,f16c,avxvnni")
#define LAZYPRUNE_AVX_VNNI_INLINE LAZYPRUNE_AVX_VNNI __attribute__((always_inline)) inline

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx_vnni {

struct lanes : avx2::lanes {
  static constexpr bool signs = false;

  template <bool>
  LAZYPRUNE_AVX_VNNI_INLINE static integers add_products(integers sums, integers weights, integers x) {
    return _mm256_dpbusd_avx_epi32(sums, weights, x);
  }
};

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX_VNNI
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX_VNNI_INLINE
#include <lazyprune/backend/cpu/kernels/shared/int8_product.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr product_kernel int8 = [] {
  product_kernel k = avx2::int8;
  k.unpack = unpack_int8;
  k.multiply = multiply_int8;
  k.multiply_panels = multiply_panels;
  return k;
}();

}  // namespace avx_vnni
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
