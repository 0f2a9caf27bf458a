// SPDX-License-Identifier: MIT
#include <lazyprune/files/utf8.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using lazyprune::characters_of;
using lazyprune::first_character;
using lazyprune::in_quotes;
using lazyprune::last_character;
using lazyprune::printable;
using lazyprune::utf8_end;
using lazyprune::utf8_length;
using lazyprune::utf8_prefix;
using lazyprune::without_utf8_mark;

namespace {

/// Does the same as utf8_prefix, by the grammar in section 4 of RFC 3629.
std::size_t by_grammar(std::string_view s) {
  const auto in = [&](std::size_t i, unsigned low, unsigned high) {
    return i < s.size() && static_cast<unsigned char>(s[i]) >= low && static_cast<unsigned char>(s[i]) <= high;
  };
  const auto tail = [&](std::size_t i) { return in(i, 0x80, 0xbf); };
  if (in(0, 0x00, 0x7f)) return 1;
  if (in(0, 0xc2, 0xdf) && tail(1)) return 2;
  if (in(0, 0xe0, 0xe0) && in(1, 0xa0, 0xbf) && tail(2)) return 3;
  if ((in(0, 0xe1, 0xec) || in(0, 0xee, 0xef)) && tail(1) && tail(2)) return 3;
  if (in(0, 0xed, 0xed) && in(1, 0x80, 0x9f) && tail(2)) return 3;
  if (in(0, 0xf0, 0xf0) && in(1, 0x90, 0xbf) && tail(2) && tail(3)) return 4;
  if (in(0, 0xf1, 0xf3) && tail(1) && tail(2) && tail(3)) return 4;
  if (in(0, 0xf4, 0xf4) && in(1, 0x80, 0x8f) && tail(2) && tail(3)) return 4;
  return 0;
}

}  // namespace

TEST_CASE("utf8_prefix agrees with the grammar of RFC 3629 on all first and second bytes, and on the edges of the third and fourth") {
  std::size_t valid = 0;
  bool agree = true;
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b)
      for (const unsigned c : {0x00u, 0x7fu, 0x80u, 0xbfu, 0xc0u})
        for (const unsigned d : {0x7fu, 0x80u, 0xbfu, 0xc0u}) {
          const std::string text = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c), static_cast<char>(d)};
          for (std::size_t size = 0; size <= 4; ++size) {
            const std::size_t length = utf8_prefix(std::string_view(text).substr(0, size));
            agree =
                agree && length == by_grammar(std::string_view(text).substr(0, size)) && (length == 0 || length == utf8_length(text[0]));
            valid += length > 1;
          }
          REQUIRE(agree);
        }
  CHECK(valid > 0);
}

TEST_CASE("a byte order mark is left out at the beginning, once") {
  CHECK(without_utf8_mark("\xEF\xBB\xBF\xEF\xBB\xBFx\xEF\xBB\xBF") == "\xEF\xBB\xBFx\xEF\xBB\xBF");
  CHECK(without_utf8_mark("\xEF\xBB\xBF").empty());
  for (const std::string_view text : {"", "x", "\xEF\xBB", "\xEF\xBB\xBB"}) CHECK(without_utf8_mark(text) == text);
}

TEST_CASE("utf8_end stops at the first bad byte") {
  CHECK(utf8_end("") == 0);
  CHECK(utf8_end("h\xc3\xa9llo") == 6);
  CHECK(utf8_end("ab\xff"
                 "cd") == 2);
  CHECK(utf8_end("ab\xe2\x96") == 2);
}

TEST_CASE("printable returns one line of UTF-8, whatever the bytes") {
  CHECK(printable("model.norm") == "model.norm");
  CHECK(printable("a\nb\x1b[2J") == "a\\x0ab\\x1b[2J");
  CHECK(printable("\xff\xc3\xa9") == "\\xff\xc3\xa9");
  CHECK(printable(std::string(60, 'x')) == std::string(60, 'x'));
  CHECK(printable(std::string(61, 'x')) == std::string(60, 'x') + "...");
  CHECK(in_quotes("a") == "\"a\"");
}

TEST_CASE("characters are read as they were written, from both ends") {
  for (std::uint32_t code = 0; code <= 0x10ffff; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text = "x";
    lazyprune::append_utf8(text, code);
    REQUIRE(last_character(text).code == code);
    REQUIRE(first_character(std::string_view(text).substr(1)).code == code);
    REQUIRE(last_character(text).size + 1 == text.size());
  }
}

TEST_CASE("a byte that is not UTF-8 is one character, from both ends") {
  CHECK(last_character("a\x82").size == 1);
  CHECK(last_character("\x82\x82\x82\x82\x82").size == 1);
  CHECK(first_character("\xe2").code == 0xfffd);
}

TEST_CASE("White_Space has 25 characters; Python's isspace has four separators more") {
  std::vector<char32_t> more;
  int count = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    const bool unicode = lazyprune::is_unicode_white_space(code), python = lazyprune::is_python_space(code);
    count += unicode ? 1 : 0;
    if (python != unicode) more.push_back(code);
    REQUIRE((python || !unicode));
  }
  CHECK(count == 25);
  CHECK(more == std::vector<char32_t>{0x1c, 0x1d, 0x1e, 0x1f});
  for (const char32_t code : {U'\t', U'\r', U'\u0085', U'\u00a0', U'\u2003', U'\u3000'}) CHECK(lazyprune::is_unicode_white_space(code));
  for (const char32_t code : {U'\0', U'\u180e', U'\u200b', U'\u2060', U'\ufeff'}) CHECK_FALSE(lazyprune::is_python_space(code));
}

TEST_CASE("characters_of gives U+FFFD for each byte outside of characters") {
  CHECK(characters_of("a\xc3\xa9\xf0\x9f\x98\x80") == U"a\u00e9\U0001f600");
  CHECK(characters_of("\xe2\x82z\xff") == U"\ufffd\ufffdz\ufffd");
  CHECK(characters_of("").empty());
}
