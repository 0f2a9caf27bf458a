// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/int8_product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/int8_contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("activations in 8 bits") {
  if (is_missing(isa::avx2)) return;
  check_int8_packing(kernels::avx2::int8);
  check_largest_int8_products(kernels::avx2::int8);
  check_int8_products(kernels::avx2::int8, true);
}
