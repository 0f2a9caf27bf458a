// SPDX-License-Identifier: MIT
#include <lazyprune/text/letter_case.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

using namespace lazyprune;

TEST_CASE("single characters change their case") {
  constexpr std::pair<std::uint32_t, std::uint32_t> pairs[] = {{'A', 'a'},         {0xc9, 0xe9},    {0x100, 0x101}, {0x178, 0xff},
                                                               {0x391, 0x3b1},     {0x414, 0x434},  {0x531, 0x561}, {0x1e00, 0x1e01},
                                                               {0x10400, 0x10428}, {0x13a0, 0xab70}};
  for (const auto& [upper, lower] : pairs) {
    CHECK(lower_case(upper) == lower);
    CHECK(upper_case(lower) == upper);
  }
  for (const std::uint32_t same : {0x31u, 0xdfu, 0x4e00u, 0x1f600u, 0x10ffffu}) {
    CHECK(lower_case(same) == same);
    CHECK(upper_case(same) == same);
  }
}

TEST_CASE("to lower and back gives a character that has the same lower") {
  for (std::uint32_t code = 0; code < 0x20000; ++code) {
    const std::uint32_t lower = lower_case(code);
    REQUIRE(lower_case(lower) == lower);
    if (code != 0x130 && code != 0x1e9e && code != 0x3f4 && code != 0x2126 && code != 0x212a &&
        code != 0x212b)  // signs with the lower of a letter
      if (lower != code) REQUIRE(lower_case(upper_case(lower)) == lower);
  }
}
