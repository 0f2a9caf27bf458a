// SPDX-License-Identifier: MIT
// Norms, RoPE and sums on any processor.
#pragma once

#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/portable/vec.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

#define LAZYPRUNE_KERNEL
#define LAZYPRUNE_KERNEL_INLINE inline
#include <lazyprune/backend/cpu/kernels/shared/elementwise.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
