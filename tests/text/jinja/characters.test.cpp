// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/characters.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

using namespace lazyprune;
using namespace lazyprune::jinja;

TEST_CASE("each byte that is not UTF-8 counts as one character") { CHECK(count_characters("a\xff\xe2\x82z") == 5); }

TEST_CASE("character_offset returns the byte at which a character begins") {
  constexpr std::string_view text = "h\xc3\xa9llo";
  CHECK(count_characters(text) == 5);
  CHECK(character_offset(text, 2) == 3);
  CHECK(character_offset(text, 5) == 6);
  CHECK(character_offset(text, 99) == 6);
}

TEST_CASE("white space and line ends are the same characters as in Python") {
  CHECK(without_leading_space(" \t\n\x1c\xc2\xa0\xe2\x80\x83x ") == "x ");
  CHECK(without_trailing_space(" x\xe3\x80\x80\xc2\x85\r") == " x");
  CHECK(without_trailing_space(" \n") == "");
  CHECK(without_leading_space("\xe2\x80\x8bx") == "\xe2\x80\x8bx");  // a zero width space is not white space
  CHECK(is_line_end('\v'));
  CHECK_FALSE(is_line_end(0x1f));
}

TEST_CASE("printable characters are the same as in Python's repr") {
  for (const std::uint32_t code : {0x0u, 0x1fu, 0x7fu, 0xa0u, 0xadu, 0x200bu, 0x2028u, 0xe000u, 0xfeffu, 0x10fffdu})
    CHECK_FALSE(is_printable(code));
  for (const std::uint32_t code : {0x20u, 0x7eu, 0xa1u, 0xe9u, 0x2010u, 0x4e00u, 0x1f600u}) CHECK(is_printable(code));
}
