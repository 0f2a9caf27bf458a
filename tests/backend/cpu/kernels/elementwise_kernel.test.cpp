// SPDX-License-Identifier: MIT
// avx2/elementwise.test.cpp and its neighbours test the kernels themselves.
#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>

#include <doctest/doctest.h>

TEST_CASE("the scale of a norm, from sums that are exact in float") {
  float lanes[lazyprune::kernels::square_lanes];
  for (std::size_t i = 0; i < lazyprune::kernels::square_lanes; ++i) lanes[i] = static_cast<float>(i);  // 496 in all
  CHECK(lazyprune::kernels::rms_scale(lanes, 31, 0.0) == 0.25f);
  CHECK(lazyprune::kernels::rms_scale(lanes, 496, 3.0) == 0.5f);
}
