// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/elementwise.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/elementwise_contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("norms, rotations and sums have the bits of their definition") {
  if (is_missing(isa::avx2)) return;
  check_elementwise(kernels::avx2::elementwise, true);
}
