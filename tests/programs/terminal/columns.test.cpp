// SPDX-License-Identifier: MIT
#include "terminal/columns.hpp"

#include <doctest/doctest.h>

using namespace lazyprune::program;

TEST_CASE("one_line escapes control bytes") {
  CHECK(one_line("a b") == "a b");
  CHECK(one_line("a\nb\x7f\t") == "a\\x0ab\\x7f\\x09");
  CHECK(one_line("é") == "é");
}

TEST_CASE("columns are characters, not bytes") {
  CHECK(columns_of("é±x") == 3);
  CHECK(right("é", 3) == "  é");
  CHECK(left("é", 3) == "é  ");
  CHECK(right("long", 2) == "long");
}

TEST_CASE("a bar fills its share of the columns") {
  CHECK(columns_of(bar(0.5, 10)) == 5);
  CHECK(bar(0, 10).empty());
}
