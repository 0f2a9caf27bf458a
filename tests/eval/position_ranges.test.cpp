// SPDX-License-Identifier: MIT
#include <lazyprune/eval/position_ranges.hpp>

#include <vector>

#include <doctest/doctest.h>

using lazyprune::position, lazyprune::position_ranges;

TEST_CASE("neighbours join into ranges") {
  CHECK(position_ranges(std::vector<position>{}) == "");
  CHECK(position_ranges(std::vector<position>{7}) == "7");
  CHECK(position_ranges(std::vector<position>{0, 1, 2, 4, 6, 7}) == "0-2,4,6-7");
}

TEST_CASE("dots stand for ranges beyond the limit") {
  const std::vector<position> odd{1, 3, 5, 7};
  CHECK(position_ranges(odd, 4) == "1,3,5,7");
  CHECK(position_ranges(odd, 2) == "1,3,...");
}
