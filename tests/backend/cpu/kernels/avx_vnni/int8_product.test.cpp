// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx_vnni/int8_product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/int8_contract.hpp>
#include <skip.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("activations in 8 bits") {
  if (!detail::this_processor().avx_vnni) return skip("a processor with AVX-VNNI");
  check_largest_int8_products(kernels::avx_vnni::int8);
  check_int8_products(kernels::avx_vnni::int8, true);
}
