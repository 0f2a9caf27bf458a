// SPDX-License-Identifier: MIT
// avx2/attention.test.cpp and its neighbours test the kernels themselves.
#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

using namespace lazyprune;

TEST_CASE("a tile gives each lane of the mass the same number of keys") { CHECK(kernels::tile_outputs % kernels::mass_lanes == 0); }

TEST_CASE("e^weight_limit is computed as 0, because its power of two, 2^-127, has the bits of 0") {
  const auto n = static_cast<std::int32_t>(std::nearbyint(kernels::weight_limit * kernels::log2_e));
  CHECK(std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23) == 0.0f);
}
