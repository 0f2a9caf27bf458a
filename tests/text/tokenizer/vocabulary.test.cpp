// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/vocabulary.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>

#include <files/support.hpp>

using lazyprune::vocabulary;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("a vocabulary with a gap in its ids finds pieces and ids, also after a move") {
  vocabulary first({"a", std::nullopt, "bc"});
  const vocabulary pieces = std::move(first);
  CHECK(pieces.size() == 3);
  CHECK(pieces.count() == 2);
  CHECK(pieces.find("bc") == 2u);
  CHECK_FALSE(pieces.find("b").has_value());
  CHECK(pieces.piece(0) == "a");
  CHECK_FALSE(pieces.piece(1).has_value());
  CHECK_FALSE(pieces.piece(3).has_value());
}

TEST_CASE("a repeated piece and a piece that is too long are refused") {
  CHECK(error_of([] { vocabulary({"a", "a"}); }) == at("", {"\"a\""}));
  CHECK(error_of([] { vocabulary({std::string(65'537, 'a')}); }) == at("", {"65536", "65537"}));
}
