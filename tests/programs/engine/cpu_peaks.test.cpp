// SPDX-License-Identifier: MIT
#include "engine/cpu_peaks.hpp"

#include <doctest/doctest.h>

using namespace lazyprune;
using lazyprune::program::cpu_peaks;

TEST_CASE("instruction sets of this processor are measured, others are refused") {
  const cpu_peaks here(1);
  // Today's processors do between 1e8 and 1e13 operations/s per thread, even on a busy machine.
  for (const isa i : every_isa)
    for (const dtype weights : {dtype::f32, dtype::bf16}) {
      CAPTURE(name_of(i));
      if (has(i))
        CHECK((here.arithmetic(i, weights) > 1e8 && here.arithmetic(i, weights) < 1e13));
      else
        CHECK_THROWS_AS(here.arithmetic(i, weights), error);
    }
  for (const isa i : every_isa)
    if (const kernels::product_kernel* const kernel = has(i) ? kernels::int8_kernel_of(i) : nullptr)
      CHECK((here.byte_arithmetic(*kernel) > 1e8 && here.byte_arithmetic(*kernel) < 1e14));
  CHECK((here.reading(1 << 20) > 1e7 && here.reading(1 << 20) < 1e13));
  CHECK(cpu_peaks(3).reading(1000) < 1e13);
}
