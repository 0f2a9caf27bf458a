// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512/elementwise.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/elementwise_contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("norms, rotations and sums have the bits of their definition") {
  if (is_missing(isa::avx512)) return;
  check_elementwise(kernels::avx512::elementwise, true);
}
