// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/unicode.hpp>

#include <doctest/doctest.h>

TEST_CASE("white space: 25 characters, none of them a zero-width or Mongolian one") {
  int count = 0;
  for (char32_t code = 0; code < 0x110000; ++code) count += lazyprune::is_white_space(code) ? 1 : 0;
  CHECK(count == 25);
  for (const char32_t code : {U'\t', U'\r', U'\u0085', U'\u00a0', U'\u2003', U'\u3000'}) CHECK(lazyprune::is_white_space(code));
  for (const char32_t code : {U'\0', U'\x1c', U'\u180e', U'\u200b', U'\u2060', U'\ufeff'}) CHECK_FALSE(lazyprune::is_white_space(code));
}
