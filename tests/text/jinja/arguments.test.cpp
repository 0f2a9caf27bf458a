// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/arguments.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;

TEST_CASE("arguments meet their parameters by place or by name") {
  jinja::arguments given;
  given.positional = {jinja::value(std::int64_t{1})};
  given.named = {{"c", jinja::template_text("x")}};
  const jinja::bound_arguments bound("f", given, {"a", "b", "c"}, 1);
  CHECK(bound.integer(0, 9) == 1);
  CHECK(bound.integer(1, 9) == 9);
  CHECK(bound.text(2).bytes() == "x");
  CHECK_FALSE(bound.has(1));
  CHECK(bound.flag(1, true));
  CHECK(error_of([&] { (void)bound.text(0); }) == "expected a string for \"a\" of \"f\", found a number");
  CHECK(error_of([&] { (void)bound.integer(2, 0); }) == "expected a whole number for \"c\" of \"f\", found a string");
}

TEST_CASE("what does not meet is refused") {
  jinja::arguments given;
  given.positional = {jinja::value(true), jinja::value(true)};
  CHECK(error_of([&] { jinja::bound_arguments("f", given, {"a"}); }) == "expected at most 1 arguments of \"f\", found 2");
  given.named = {{"a", jinja::value(true)}};
  CHECK(error_of([&] { jinja::bound_arguments("f", given, {"a", "b"}); }) == "expected each argument of \"f\" once, found \"a\" twice");
  given.named = {{"z", jinja::value(true)}};
  CHECK(error_of([&] { jinja::bound_arguments("f", given, {"a", "b"}); }) == "expected an argument that \"f\" has, found \"z\"");
  CHECK(error_of([&] { jinja::bound_arguments("f", {}, {"a", "b"}, 2); }) == "expected the argument \"a\" of \"f\", found none");
}
