// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/amx/product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights in bf16") {
  if (is_missing(isa::amx)) return;
  check_kernel(kernels::amx::bf16);
}
