// SPDX-License-Identifier: MIT
#include <lazyprune/eval/drawn_half.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace lazyprune;

TEST_CASE("half of the samples are drawn; of an odd number, the larger half") {
  for (const std::size_t size : {0u, 1u, 2u, 5u, 6u, 143u}) {
    CAPTURE(size);
    const std::vector<bool> drawn = drawn_half(size);
    CHECK(drawn.size() == size);
    CHECK(static_cast<std::size_t>(std::ranges::count(drawn, true)) == (size + 1) / 2);
  }
}

TEST_CASE("if lengths repeat with a period, both halves contain every length") {
  for (const std::size_t period : {2u, 3u, 6u}) {
    CAPTURE(period);
    const std::vector<bool> drawn = drawn_half(48);
    std::set<std::size_t> in, out;
    for (std::size_t i = 0; i < drawn.size(); ++i) (drawn[i] ? in : out).insert(i % period);
    CHECK(in.size() == period);
    CHECK(out.size() == period);
  }
}

TEST_CASE("the half depends only on the number and the seed") {
  CHECK(drawn_half(6) == std::vector<bool>{false, false, true, false, true, true});  // computed by an independent program
  CHECK(drawn_half(20) == drawn_half(20));
  CHECK(drawn_half(20, 1) != drawn_half(20, 2));
}
