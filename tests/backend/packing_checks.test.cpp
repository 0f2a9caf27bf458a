// SPDX-License-Identifier: MIT
#include <lazyprune/backend/packing_checks.hpp>

#include <doctest/doctest.h>

#include <array>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("a stack of parts has the outputs of all its parts, and parts that do not fit together are refused") {
  const tensor three{dtype::f32, 3, 4, nullptr}, two{dtype::bf16, 2, 4, nullptr}, wide{dtype::f32, 3, 5, nullptr};
  CHECK(detail::stacked_outputs(std::array{three, two, three}, dtype::bf16) == 8);
  CHECK(error_of([&] { detail::stacked_outputs(std::array{three, wide}, dtype::f32); }) == at("pack", {"4", ", found 5"}));
  CHECK_THROWS_AS(detail::stacked_outputs({}, dtype::f32), error);
  CHECK_THROWS_AS(detail::stacked_outputs(std::array{three}, dtype::f16), error);
  CHECK_THROWS_AS(detail::stacked_outputs(std::array{three}, dtype::q8_0), error);
  CHECK_NOTHROW(detail::check_gated(three, wide));
  CHECK(error_of([&] { detail::check_gated(three, two); }) == at("pack_gated", {"3", ", found 2"}));
}
