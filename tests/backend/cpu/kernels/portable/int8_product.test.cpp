// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/int8_product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/int8_contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("activations in 8 bits") {
  check_int8_packing(kernels::portable::int8);
  check_largest_int8_products(kernels::portable::int8);
  check_int8_products(kernels::portable::int8, false);
}
