// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/shared_array.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using namespace lazyprune;

TEST_CASE("the first write to a shared array copies it, and later writes do not") {
  shared_array<float> one(3);
  std::iota(one.own(), one.own() + 3, 1.0f);
  const float* const first = one.data();
  {
    const shared_array<float> other = one;
    CHECK(other.data() == first);
    one.own()[1] = 9;
    CHECK(one.data() != first);
    CHECK(std::vector<float>(other.data(), other.data() + 3) == std::vector<float>{1, 2, 3});
    CHECK(std::vector<float>(one.data(), one.data() + 3) == std::vector<float>{1, 9, 3});
  }
  const float* const second = one.data();
  one.own()[0] = 7;
  CHECK(one.data() == second);
  CHECK(shared_array<float>().bytes() == 0);
}
