// SPDX-License-Identifier: MIT
// The running softmax in AVX-512.
#pragma once

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512 {

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX512
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX512_INLINE
#include <lazyprune/backend/cpu/kernels/shared/attention.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

}  // namespace avx512
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
