// SPDX-License-Identifier: MIT
// What the kernels do: avx2/attention.test.cpp and its neighbours.
#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

using namespace lazyprune;

TEST_CASE("lanes take keys in turn: a tile gives each the same number of them") {
  CHECK(kernels::tile_outputs % kernels::mass_lanes == 0);
  CHECK(kernels::no_score < std::numeric_limits<float>::lowest());
}
