// SPDX-License-Identifier: MIT
#include <lazyprune/text/letter_case.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
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

TEST_CASE("a lower-case letter that is changed to upper case and back is the same letter") {
  for (std::uint32_t code = 0; code < 0x20000; ++code) {
    const std::uint32_t lower = lower_case(code);
    REQUIRE(lower_case(lower) == lower);
    if (code != 0x130 && code != 0x1e9e && code != 0x3f4 && code != 0x2126 && code != 0x212a &&
        code != 0x212b)  // these signs have a lower case that belongs to another letter
      if (lower != code) REQUIRE(lower_case(upper_case(lower)) == lower);
  }
}

TEST_CASE("some letters become several characters") {
  CHECK(upper_letters(0xdf) == U"SS");
  CHECK(upper_letters(0xfb03) == U"FFI");
  CHECK(upper_letters(0x390) == U"\u0399\u0308\u0301");
  CHECK(title_letters(0xfb03) == U"Ffi");
  CHECK(title_letters(0x1c6) == U"\u01c5");
  CHECK(title_letters(0x10d0) == U"\u10d0");  // a Georgian letter has an upper case, but is its own title case
  CHECK(upper_letters(0x10d0) == U"\u1c90");
  CHECK(title_letters('a') == U"A");
  CHECK(lower_letters(U"\u0130", 0) == U"i\u0307");
  CHECK(upper_letters(0x4e00) == U"\u4e00");
}

TEST_CASE("the lower case of sigma depends on the letters around it; ignorable characters are skipped") {
  CHECK(lower_letters(U"\u0391\u03a3", 1) == U"\u03c2");
  CHECK(lower_letters(U"\u0391\u03a3\u0391", 1) == U"\u03c3");
  CHECK(lower_letters(U"\u0391'\u03a3. ", 2) == U"\u03c2");
  CHECK(lower_letters(U"\u0391\u03a3'\u0391", 1) == U"\u03c3");
  CHECK(lower_letters(U" \u03a3", 1) == U"\u03c3");
}

TEST_CASE("swapping case does not change letters in title case and characters without a case") {
  CHECK(swapped_letters(U"a", 0) == U"A");
  CHECK(swapped_letters(U"A", 0) == U"a");
  CHECK(swapped_letters(U"\u01c5", 0) == U"\u01c5");
  CHECK(swapped_letters(U"\u0130", 0) == U"i\u0307");
  CHECK(swapped_letters(U"\u0391\u03a3", 1) == U"\u03c2");
  CHECK(swapped_letters(U"1", 0) == U"1");
}

TEST_CASE("letters in upper, lower or title case are cased; digits, spaces, ideographs and marks are not") {
  for (const char32_t cased : {U'a', U'A', U'\u00aa', U'\u01c5', U'\u02b0', U'\u2160', U'\U0001d400'}) CHECK(is_cased(cased));
  for (const char32_t other : {U'1', U' ', U'\u4e00', U'\u0301', U'\U0010ffff'}) CHECK_FALSE(is_cased(other));
}
