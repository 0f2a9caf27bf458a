// SPDX-License-Identifier: MIT
#include <lazyprune/backend/packing_checks.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace lazyprune;

TEST_CASE("parts that stack have all their outputs") {
  const tensor three{dtype::f32, 3, 4, nullptr}, two{dtype::bf16, 2, 4, nullptr}, wide{dtype::f32, 3, 5, nullptr};
  CHECK(detail::stacked_outputs(std::array{three, two, three}, dtype::bf16) == 8);
  CHECK_THROWS_WITH_AS(detail::stacked_outputs(std::array{three, wide}, dtype::f32), "pack: expected 4 inputs in every part, found 5",
                       error);
  CHECK_THROWS_AS(detail::stacked_outputs({}, dtype::f32), error);
  CHECK_THROWS_AS(detail::stacked_outputs(std::array{three}, dtype::f16), error);
  CHECK_NOTHROW(detail::check_gated(three, wide));
  CHECK_THROWS_WITH_AS(detail::check_gated(three, two), "pack_gated: expected 3 rows of up, found 2", error);
}
