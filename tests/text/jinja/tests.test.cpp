// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/tests.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::unsupported;

TEST_CASE("tests are found by name") {
  const auto known = [](std::string_view name) { return lazyprune::jinja::find_test(name) != nullptr; };
  CHECK(known("defined"));
  CHECK(known("=="));
  CHECK_FALSE(known("filter"));
}

TEST_CASE("the error about an unknown test names its place; a branch of an if that does not run may have such a test") {
  CHECK(rendered("a\n{{ x is escaped }}") == unsupported("t: line 2, column 9", {"\"escaped\""}));
  CHECK(rendered("{% for x in [] %}{{ x is escaped }}{% endfor %}") == unsupported("t: line 1, column 26", {"\"escaped\""}));
  CHECK(rendered("a\n{% if false %}{{ x is escaped }}{% endif %}") == "a\n");
  CHECK(rendered("a\n{% if true %}{{ x is escaped }}{% endif %}").starts_with("t: line 2, "));
  CHECK(rendered("{{ (x is escaped) if false else 'b' }}") == "b");
  CHECK(rendered("{{ [1]|select('nope')|list }}") == unsupported("t: line 1, column 8", {"\"nope\""}));
}

TEST_CASE("tests that compare give the same results as the operators") {
  CHECK(
      rendered(
          "{{ 1 is ge 1 }}{{ 1 is gt 1 }}{{ 1 is le 0 }}{{ 'a' is ne 'b' }}{{ 3 is divisibleby(2) }}{{ 1.0 is sameas 1.0 }}{{ none is sameas none }}") ==
      "TrueFalseFalseTrueFalseFalseTrue");
  CHECK(rendered("{{ 'a' is odd }}") == at("t: line 1, column 8"));
}
