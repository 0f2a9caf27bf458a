// SPDX-License-Identifier: MIT
// All kernels, and which of them an instruction set computes with.
#pragma once

#include <lazyprune/backend/cpu/kernels/amx/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/attention.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/attention.hpp>

namespace lazyprune {
inline namespace v0 {
inline namespace LAZYPRUNE_COMPILED_ISA {
namespace kernels {

/// What multiplies by weights of this type.
inline const product_kernel& product_kernel_for(isa path, dtype weights) {
  if (path == isa::avx2) return weights == dtype::f32 ? avx2::f32 : avx2::bf16;
  if (weights == dtype::f32) return avx512::f32;
  return path == isa::avx512 ? avx512::bf16 : path == isa::avx512_bf16 ? avx512_bf16::bf16 : amx::bf16;
}

inline const attention_kernel& attention_kernel_for(isa path) { return path == isa::avx2 ? avx2::attention : avx512::attention; }

}  // namespace kernels
}  // namespace LAZYPRUNE_COMPILED_ISA
}  // namespace v0
}  // namespace lazyprune
