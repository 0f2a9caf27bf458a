// SPDX-License-Identifier: MIT
#include "models/known_stages.hpp"

#include <doctest/doctest.h>

#include <lazyprune/policy/schedule/stages.hpp>

TEST_CASE("stages are found by the model's name and number of layers") {
  using lazyprune::program::known_stages;
  const auto smollm2 = known_stages("Smollm2 135M 8k Lc100K Mix1 Ep2", 30);
  REQUIRE(smollm2);
  const auto when = lazyprune::stages::parse(smollm2->stages);
  CHECK(when.list().back().after < 30);
  CHECK(smollm2->least_tokens > 0);
  CHECK_FALSE(known_stages("Smollm2 135M 8k Lc100K Mix1 Ep2", 32));
  CHECK_FALSE(known_stages("Smollm2 135M", 30));
  CHECK_FALSE(known_stages("", 0));
}
