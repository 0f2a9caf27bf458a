// SPDX-License-Identifier: MIT
#include <lazyprune/policy/arguments.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;

namespace {

template <class Number, class Value>
fault refusal(Value value) {
  return error_of([&] { Number{value}; });
}

}  // namespace

TEST_CASE("a fraction is more than 0 and at most 1") {
  for (const double good : {1.0, 0.5, 1e-300, std::numeric_limits<double>::denorm_min()}) CHECK(fraction(good) == good);
  for (const double bad :
       {0.0, -0.0, -0.5, std::nextafter(1.0, 2.0), 2.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(fraction{bad}, error);
  CHECK(refusal<fraction>(1.5) == at("", {", found 1.5"}));
}

TEST_CASE("a positive count is not 0") {
  CHECK(positive(1) == 1);
  CHECK(positive(std::numeric_limits<std::size_t>::max()) == std::numeric_limits<std::size_t>::max());
  CHECK(refusal<positive>(std::size_t{0}) == at("", {", found 0"}));
}

TEST_CASE("share_of rounds up, but a rounding error in double does not add a token") {
  CHECK(share_of(0.1, 30) == 3);  // 0.1 * 30 is 3.0000000000000004 in double
  CHECK(share_of(0.7, 10) == 7);
  CHECK(share_of(0.5, 3) == 2);
  CHECK(share_of(1.0, 1) == 1);
  CHECK(share_of(1e-300, 5) == 1);
  CHECK(share_of(-3.0, 5) == 1);  // a budget that is already used up asks for a negative share
  CHECK(share_of(7.0, 5) == 5);

  // Checks whole percentages against integer arithmetic.
  for (std::uint64_t percent = 1; percent <= 100; ++percent)
    for (std::uint64_t n = 1; n < 2000; ++n) REQUIRE(share_of(static_cast<double>(percent) / 100.0, n) == (percent * n + 99) / 100);
}
