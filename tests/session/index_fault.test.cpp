// SPDX-License-Identifier: MIT
#include <lazyprune/session/index_fault.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace {

using namespace lazyprune;

std::optional<index_fault> fault_of(std::vector<std::uint32_t> room, std::size_t count) { return fault_in(room, count); }

}  // namespace

TEST_CASE("ascending indices below the number of choices are right; numbers after them do not matter") {
  CHECK(!fault_of({}, 0));
  CHECK(!fault_of({9, 9, 9}, 0));
  CHECK(!fault_of({0, 1, 2}, 3));
  CHECK(!fault_of({0, 2, 1}, 2));
}

TEST_CASE("the fault has the first wrong index and the one before it") {
  CHECK(fault_of({0, 0, 1}, 3) == index_fault{.below = 3, .count = 3, .index = 0, .before = 0});
  CHECK(fault_of({0, 2, 1}, 3) == index_fault{.below = 3, .count = 3, .index = 1, .before = 2});
  CHECK(fault_of({3, 0, 0}, 1) == index_fault{.below = 3, .count = 1, .index = 3, .before = 0});
  CHECK(fault_of({0, 1, 2}, 4) == index_fault{.below = 3, .count = 4, .index = 0, .before = 0});
  CHECK(fault_of({0, 1, 2}, 4)->too_many());
}

TEST_CASE("found() describes the fault") {
  CHECK(fault_of({0, 2, 1}, 3)->found() == "1 after 2");
  CHECK(fault_of({0, 7, 1}, 2)->found() == "7");
  CHECK(fault_of({0, 7, 1}, 4)->found() == "4 of them");
}
