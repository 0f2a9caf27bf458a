// SPDX-License-Identifier: MIT
#include <lazyprune/text/unicode/installed.hpp>

#include <doctest/doctest.h>

#include <string>

using lazyprune::installed_unicode;

TEST_CASE("lowercase() maps each character without regard to its neighbours") {
  CHECK(installed_unicode().lowercase("\xc3\x84\xce\xa3\xce\x91\xce\xa3 \xc4\xb0 \xc7\x85 Ab\xe1\xba\x9e") ==
        "\xc3\xa4\xcf\x83\xce\xb1\xcf\x83 i\xcc\x87 \xc7\x86 ab\xc3\x9f");
}

TEST_CASE("characters are numbers, punctuation or parts of words as in Unicode") {
  const lazyprune::unicode& all = installed_unicode();
  for (const char32_t code : {U'7', U'\u0663', U'\u00b2', U'\u2167', U'\u2469'}) CHECK(all.is_number(code));
  for (const char32_t code : {U'a', U' ', U'$'}) CHECK_FALSE(all.is_number(code));
  for (const char32_t code : {U'!', U'_', U'\u3002', U'\u00ab'}) CHECK(all.is_punctuation(code));
  for (const char32_t code : {U'$', U'+', U'a', U'`'}) CHECK_FALSE(all.is_punctuation(code));
  for (const char32_t code : {U'a', U'_', U'9', U'\u0301', U'\u2160', U'\u24d0', U'\u200d', U'\u65e5'}) CHECK(all.is_word(code));
  for (const char32_t code : {U' ', U'-', U'\u00b2', U'\u2460', U'\u2010'}) CHECK_FALSE(all.is_word(code));
}

TEST_CASE("versions() names the versions of Unicode, and compile() makes a regular expression") {
  CHECK(installed_unicode().versions().starts_with("Unicode 1"));
  CHECK(installed_unicode().compile("a+")->find("baa", 0) == lazyprune::text_range{1, 3});
}
