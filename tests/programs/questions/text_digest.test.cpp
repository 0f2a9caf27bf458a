// SPDX-License-Identifier: MIT
#include "questions/text_digest.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include <lazyprune/files/json.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("the hash of a list depends on each text, on their order, and on where each ends") {
  std::set<std::uint64_t> seen;
  const auto is_new = [&](const text_digest& digest) { return seen.insert(digest.value()).second; };
  CHECK(is_new(text_digest{}));
  CHECK(is_new(text_digest{}.add("")));
  CHECK(is_new(text_digest{}.add("").add("")));
  CHECK(is_new(text_digest{}.add("ab")));
  CHECK(is_new(text_digest{}.add("a").add("b")));
  CHECK(is_new(text_digest{}.add("b").add("a")));
  CHECK(is_new(text_digest{}.add("").add("ab")));
  CHECK(is_new(text_digest{}.add("ab").add("")));
  CHECK(text_digest{}.add("a").add("b").value() == text_digest{}.add("a").add("b").value());
  CHECK(digest_of("a prompt") != digest_of("a Prompt"));
}

TEST_CASE("a hash reads back from its hexadecimal digits") {
  const auto read = [](const std::string& text) { return read_hex(json_value::parse('"' + text + '"', "f", 100)); };
  for (const std::uint64_t digest : {std::uint64_t{0}, std::uint64_t{0xabc}, ~std::uint64_t{0}}) CHECK(read(hex_text(digest)) == digest);
  CHECK(hex_text(0x1f) == "1f");
  for (const char* wrong : {"", "1g", "12345678901234567"}) CHECK_THROWS_AS(read(wrong), error);
}
