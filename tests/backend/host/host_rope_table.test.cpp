// SPDX-License-Identifier: MIT
#include <lazyprune/backend/host/host_rope_table.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace lazyprune;

TEST_CASE("a rope table is computed in double, even if it stores floats") {
  const std::vector<double> frequencies{1.0, 0.1234567890123};
  const host_rope_table<float> table(frequencies, 1.5, 100'001);
  CHECK(table.half() == 2);
  CHECK(table.bytes() == 100'001u * 4 * sizeof(float));
  for (const position p : {0u, 1u, 99'999u, 100'000u})
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(table.cosines(p)[i] == static_cast<float>(1.5 * std::cos(p * frequencies[i])));
      CHECK(table.sines(p)[i] == static_cast<float>(1.5 * std::sin(p * frequencies[i])));
    }
}
