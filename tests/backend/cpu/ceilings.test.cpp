// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/ceilings.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("what the processor has is measured, what it lacks is refused") {
  const ceilings here(1);
  for (const isa i : every_isa)
    for (const dtype weights : {dtype::f32, dtype::bf16}) {
      CAPTURE(name_of(i));
      if (has(i))
        CHECK(here.arithmetic(i, weights) > 0);
      else
        CHECK_THROWS_AS(here.arithmetic(i, weights), error);
    }
  CHECK(here.reading(1 << 20) > 0);
  CHECK(ceilings(3).reading(1000) > 0);
}
