// SPDX-License-Identifier: MIT
#include <lazyprune/eval/rows_share.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("rows_share is the mean over the layers of the share of active tokens") {
  CHECK(rows_share({}, 6) == 1.0);
  CHECK(rows_share({{3, 0.3}, {5, 0.1}}, 6) == doctest::Approx((3 + 2 * 0.3 + 0.03) / 6).epsilon(1e-12));
  CHECK(rows_share({{0, 0.7}}, 6) == doctest::Approx(0.7).epsilon(1e-12));
  CHECK(rows_share({{9, 0.7}, {19, 0.7}, {28, 0.7}}, 32) == doctest::Approx((9 + 10 * 0.7 + 9 * 0.49 + 4 * 0.343) / 32).epsilon(1e-12));
}

TEST_CASE("a stage beyond the last layer saves nothing") { CHECK(rows_share({{6, 0.1}}, 6) == 1.0); }
