// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/kernels.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/avx2/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/attention.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/elementwise.hpp>
#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx512_vnni/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/avx_vnni/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/portable/int8_product.hpp>
#include <lazyprune/backend/cpu/kernels/portable/product.hpp>

#include <set>

using namespace lazyprune;

TEST_CASE("AVX-512, AVX512-BF16 and AMX have kernels of their own for bf16, and share the other ones") {
  std::set<const kernels::product_kernel*> in_bf16;
  std::set<const kernels::attention_kernel*> attention_in_bf16;
  for (const isa i : every_isa) {
    const kernels::kernel_set& set = kernels::kernels_of(i);
    CHECK(in_bf16.insert(&set.bf16).second);
    CHECK(&set.product(dtype::bf16) == &set.bf16);
    CHECK(&set.product(dtype::f32) == &set.f32);
    if (i < isa::avx512) continue;
    CHECK(&set.f32 == &kernels::avx512::f32);
    CHECK(&set.attention(dtype::f32) == &kernels::avx512::attention);
    CHECK(attention_in_bf16.insert(&set.attention(dtype::bf16)).second);
    CHECK(&set.elementwise == &kernels::avx512::elementwise);
  }
  CHECK(&kernels::kernels_of(isa::avx2).f32 == &kernels::avx2::f32);
  CHECK(&kernels::kernels_of(isa::portable).f32 == &kernels::portable::f32);
}

TEST_CASE("the kernels of 8 bits use VPDPBUSD where the processor has it") {
  using kernels::int8_kernel_of;
  detail::processor without, with;
  with.avx_vnni = with.avx512_vnni = true;
  CHECK(int8_kernel_of(isa::avx2, without) == &kernels::avx2::int8);
  CHECK(int8_kernel_of(isa::avx2, with) == &kernels::avx_vnni::int8);
  for (const isa i : {isa::avx512, isa::avx512_bf16}) {
    CHECK(int8_kernel_of(i, without) == &kernels::avx2::int8);
    CHECK(int8_kernel_of(i, with) == &kernels::avx512_vnni::int8);
  }
  CHECK(int8_kernel_of(isa::portable, with) == &kernels::portable::int8);
  CHECK(int8_kernel_of(isa::amx, with) == nullptr);
}
