// SPDX-License-Identifier: MIT
// The running softmax for products that read attention weights in bf16. The weights are rounded to bf16 where they are computed. So a
// polynomial of degree 3 is exact enough for them.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512/attention.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_bf16/product.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512_bf16 {

using avx512::vec;
using avx512::weight_of;

/// Returns e^x for x <= 0, with a relative error of up to 1.1e-4, or 0 if e^x is less than 2^-126.5. The polynomial approximates
/// 2^f for |f| <= 1/2. It is the one of degree 3 with the least relative error, among those that are 1 at 0.
LAZYPRUNE_AVX512_BF16_INLINE vec::floats softmax_weight(vec::floats x) {
  const vec::floats powers = vec::multiply(vec::most(vec::all(weight_limit), x), vec::all(log2_e));  // NaN stays
  const vec::floats n = vec::nearest(powers), f = vec::subtract(powers, n);
  vec::floats sum = vec::multiply_add(vec::all(0.0550089146f), f, vec::all(0.242211003f));
  sum = vec::multiply_add(sum, f, vec::all(0.693282934f));
  return vec::multiply(vec::multiply_add(sum, f, vec::all(1.0f)), vec::power_of_two(n));
}

LAZYPRUNE_AVX512_BF16_INLINE void store_weights(std::byte* to, const vec::floats (&tile)[tile_outputs / vec::size]) {
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(tile[1], tile[0]));
}

using side_work = no_side_work;

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX512_BF16
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX512_BF16_INLINE
#include <lazyprune/backend/cpu/kernels/shared/softmax.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr attention_kernel attention = [] {
  attention_kernel k = avx512::attention;
  k.weight_bytes = sizeof(std::uint16_t);
  k.soften = soften;
  return k;
}();

}  // namespace avx512_bf16
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
