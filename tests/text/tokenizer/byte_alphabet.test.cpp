// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/byte_alphabet.hpp>

#include <doctest/doctest.h>

#include <string>

using lazyprune::from_byte_alphabet;
using lazyprune::in_byte_alphabet;

TEST_CASE("every byte survives a round trip") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const std::string text = in_byte_alphabet(bytes);
  CHECK(lazyprune::utf8_end(text) == text.size());
  CHECK(from_byte_alphabet(text) == bytes);
  CHECK(in_byte_alphabet(" a\n\xc3\xa9") ==
        "\xc4\xa0"
        "a\xc4\x8a\xc3\x83\xc2\xa9");
}

TEST_CASE("a text with a character outside the byte alphabet has no bytes") {
  CHECK_FALSE(from_byte_alphabet("a b").has_value());
  CHECK_FALSE(from_byte_alphabet("\xe2\x96\x81").has_value());
  CHECK(from_byte_alphabet("") == "");
}
