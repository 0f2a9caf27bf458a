// SPDX-License-Identifier: MIT
#include "tables/number_text.hpp"

#include <limits>

#include <doctest/doctest.h>

using namespace lazyprune::program;

TEST_CASE("a fixed number of digits after the point; a dash for infinity and NaN") {
  CHECK(fixed(1.25, 1) == "1.2");  // exactly between two numbers: rounded to even
  CHECK(fixed(-0.004, 2) == "-0.00");
  CHECK(fixed(1e300, 0).size() == 301);
  CHECK(fixed(std::numeric_limits<double>::quiet_NaN(), 2) == "–");
}

TEST_CASE("three digits") {
  CHECK(three_digits(0.1234) == "0.123");
  CHECK(three_digits(1.234) == "1.23");
  CHECK(three_digits(12.34) == "12.3");
  CHECK(three_digits(123.4) == "123");
  CHECK(three_digits(99.96) == "100");
}

TEST_CASE("the unit suits the size of the value") {
  CHECK(seconds_text(0.0000123) == "12.3 us");
  CHECK(seconds_text(0.0123) == "12.3 ms");
  CHECK(seconds_text(1.5) == "1.50 s");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(std::size_t{3} << 20) == "3.00 MiB");
  CHECK(bytes_text(std::size_t{5} << 30) == "5.00 GiB");
  CHECK(percent_text(0.125) == "12.5 %");
}
