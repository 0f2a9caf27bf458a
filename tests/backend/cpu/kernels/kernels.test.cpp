// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/kernels.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("every instruction set has a kernel of its own for bf16, and none is taken for what it is not") {
  const kernels::product_kernel* in_bf16[] = {&kernels::avx2::bf16, &kernels::avx512::bf16, &kernels::avx512_bf16::bf16,
                                              &kernels::amx::bf16};
  for (const isa i : every_isa) {
    CHECK(&kernels::product_kernel_for(i, dtype::bf16) == in_bf16[static_cast<std::size_t>(i)]);
    CHECK(&kernels::product_kernel_for(i, dtype::f32) == (i == isa::avx2 ? &kernels::avx2::f32 : &kernels::avx512::f32));
    CHECK(&kernels::attention_kernel_for(i) == (i == isa::avx2 ? &kernels::avx2::attention : &kernels::avx512::attention));
  }
}
