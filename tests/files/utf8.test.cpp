// SPDX-License-Identifier: MIT
#include <lazyprune/files/utf8.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using lazyprune::in_quotes;
using lazyprune::printable;
using lazyprune::utf8_end;
using lazyprune::utf8_length;
using lazyprune::utf8_prefix;

namespace {

/// RFC 3629, section 4, as its grammar stands there.
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

TEST_CASE("utf8_prefix agrees with the grammar of RFC 3629 on every first and second byte, and on the edges of the others") {
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

TEST_CASE("utf8_end stops at the first bad byte") {
  CHECK(utf8_end("") == 0);
  CHECK(utf8_end("h\xc3\xa9llo") == 6);
  CHECK(utf8_end("ab\xff"
                 "cd") == 2);
  CHECK(utf8_end("ab\xe2\x96") == 2);
}

TEST_CASE("printable text is one line of UTF-8, whatever the bytes") {
  CHECK(printable("model.norm") == "model.norm");
  CHECK(printable("a\nb\x1b[2J") == "a\\x0ab\\x1b[2J");
  CHECK(printable("\xff\xc3\xa9") == "\\xff\xc3\xa9");
  CHECK(printable(std::string(60, 'x')) == std::string(60, 'x'));
  CHECK(printable(std::string(61, 'x')) == std::string(60, 'x') + "...");
  CHECK(in_quotes("a") == "\"a\"");
}
