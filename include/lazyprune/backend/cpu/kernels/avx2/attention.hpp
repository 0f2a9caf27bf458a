// SPDX-License-Identifier: MIT
// The running softmax in AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX2
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX2_INLINE
#include <lazyprune/backend/cpu/kernels/shared/attention.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
