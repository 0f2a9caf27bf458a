// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights in f32") {
  if (is_missing(isa::avx2)) return;
  check_kernel(kernels::avx2::f32);
}

TEST_CASE("weights in bf16") {
  if (is_missing(isa::avx2)) return;
  check_kernel(kernels::avx2::bf16);
}
