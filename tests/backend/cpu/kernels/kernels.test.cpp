// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/kernels.hpp>

#include <doctest/doctest.h>

#include <set>

using namespace lazyprune;

TEST_CASE("every instruction set has its own bf16 kernel; AVX512-BF16 and AMX take their other kernels from AVX-512") {
  std::set<const kernels::product_kernel*> in_bf16;
  for (const isa i : every_isa) {
    const kernels::kernel_set& set = kernels::kernels_of(i);
    CHECK(in_bf16.insert(&set.bf16).second);
    CHECK(&set.product(dtype::bf16) == &set.bf16);
    CHECK(&set.product(dtype::f32) == &set.f32);
    if (i < isa::avx512) continue;
    CHECK(&set.f32 == &kernels::avx512::f32);
    CHECK(&set.attention(dtype::f32) == &kernels::avx512::attention);
    CHECK(&set.attention(dtype::bf16) == (i == isa::avx512 ? &kernels::avx512::attention : &kernels::avx512_bf16::attention));
    CHECK(&set.elementwise == &kernels::avx512::elementwise);
  }
  CHECK(&kernels::kernels_of(isa::avx2).f32 == &kernels::avx2::f32);
  CHECK(&kernels::kernels_of(isa::portable).f32 == &kernels::portable::f32);
}
