// SPDX-License-Identifier: MIT
#include "questions/time_limit.hpp"

#include <thread>

#include <doctest/doctest.h>

using lazyprune::program::time_limit;

TEST_CASE("the limit is over after its minutes and stays over; 0 means no limit") {
  const time_limit none, also_none(0), hour(60), tenth_of_a_second(1.0 / 600);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  CHECK(tenth_of_a_second.over());
  CHECK(tenth_of_a_second.over());
  CHECK_FALSE(none.over());
  CHECK_FALSE(also_none.over());
  CHECK_FALSE(hour.over());
}
