// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/elementwise.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/elementwise_contract.hpp>

TEST_CASE("norms, rotations and sums on any processor") {
  lazyprune_test::check_elementwise(lazyprune::kernels::portable::elementwise, false);
}
