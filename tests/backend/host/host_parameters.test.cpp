// SPDX-License-Identifier: MIT
#include <lazyprune/backend/host/host_parameters.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("parameters join vectors of any type") {
  const std::vector<float> a{1, 2.5f}, b{-3};
  const stored first(a, 1, 2, dtype::f32), second(b, 1, 1, dtype::bf16);
  const tensor parts[] = {first, second};
  const host_parameters<double> p(parts);
  CHECK(p.size() == 3);
  CHECK(p.bytes() == 24);
  CHECK(std::vector<double>(p.data(), p.data() + 3) == std::vector<double>{1, 2.5, -3});
}
