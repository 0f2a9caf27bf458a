// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512_bf16/product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights in bf16") {
  if (is_missing(isa::avx512_bf16)) return;
  check_kernel(kernels::avx512_bf16::bf16);
}
