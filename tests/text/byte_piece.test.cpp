// SPDX-License-Identifier: MIT
#include <lazyprune/text/byte_piece.hpp>

#include <doctest/doctest.h>

#include <string_view>

using lazyprune::byte_of_piece;
using enum lazyprune::hex_letters;

TEST_CASE("a byte piece has exactly the form <0xHH>") {
  for (const lazyprune::hex_letters letters : {upper, both}) {
    CHECK(byte_of_piece("<0x00>", letters) == 0);
    CHECK(byte_of_piece("<0xFF>", letters) == 255);
    CHECK(byte_of_piece("<0x1A>", letters) == 26);
    for (const std::string_view bad :
         {"<0x-1>", "<0x1>", "<0x001>", "<0xG0>", "<0xg0>", "<0x 1>", "<0x+1>", "0x41", "<0x41", "<0X41>", ""}) {
      CAPTURE(bad);
      CHECK_FALSE(byte_of_piece(bad, letters).has_value());
    }
  }
}

TEST_CASE("lower-case digits are read only on request") {
  CHECK_FALSE(byte_of_piece("<0xff>", upper).has_value());
  CHECK(byte_of_piece("<0xfa>", both) == 250);
  CHECK(byte_of_piece("<0xaC>", both) == 172);
}
