// SPDX-License-Identifier: MIT
#include <lazyprune/core/mix.hpp>

#include <doctest/doctest.h>

TEST_CASE("mix gives the first numbers of SplitMix64's reference implementation for seed 1234567") {
  CHECK(lazyprune::mix(1234567, 0) == 6457827717110365317u);
  CHECK(lazyprune::mix(1234567, 1) == 3203168211198807973u);
  CHECK(lazyprune::mix(1234567, 2) == 9817491932198370423u);
  CHECK(lazyprune::mix(1234567, 3) == 4593380528125082431u);
}
