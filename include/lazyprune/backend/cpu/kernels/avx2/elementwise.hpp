// SPDX-License-Identifier: MIT
// Norms, RoPE and sums in AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx2/vec.hpp>
#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX2
#define LAZYPRUNE_KERNEL_INLINE LAZYPRUNE_AVX2_INLINE
#include <lazyprune/backend/cpu/kernels/shared/elementwise.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
