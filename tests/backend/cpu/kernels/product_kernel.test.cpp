// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/amx/product.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>

using namespace lazyprune::kernels;

static_assert(avx2::f32.padded(1) == 1 && avx2::f32.padded(6) == 6);
static_assert(amx::bf16.padded(1) == 16 && amx::bf16.padded(16) == 16 && amx::bf16.padded(17) == 32 && amx::bf16.padded(32) == 32);

TEST_CASE("a line of a tile has one number (f32) or two numbers (bf16) of each output") {
  for (const product_kernel& k : {avx2::f32, avx2::bf16, avx512::f32, avx512::bf16, avx512_bf16::bf16, amx::bf16}) {
    CHECK(k.line_inputs * (k.line_inputs == 1 ? 4 : 2) * tile_outputs == line_bytes);
    CHECK(k.strip % k.granule == 0);
  }
}
