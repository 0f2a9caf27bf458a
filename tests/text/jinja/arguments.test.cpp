// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/arguments.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("arguments are matched to parameters by place or by name") {
  jinja::arguments given;
  given.positional = {jinja::value(std::int64_t{1})};
  given.named = {{"c", jinja::template_text("x")}};
  const jinja::bound_arguments bound("f", given, {"a", "b", "c"}, 1);
  CHECK(bound.integer(0, 9) == 1);
  CHECK(bound.integer(1, 9) == 9);
  CHECK(bound.text(2).bytes() == "x");
  CHECK_FALSE(bound.has(1));
  CHECK(bound.flag(1, true));
  CHECK(error_of([&] { (void)bound.text(0); }) == at("", {"\"a\"", "\"f\""}));
  CHECK(error_of([&] { (void)bound.integer(2, 0); }) == at("", {"\"c\"", "\"f\""}));
}

TEST_CASE("arguments that do not match the parameters are refused") {
  jinja::arguments given;
  given.positional = {jinja::value(true), jinja::value(true)};
  CHECK(error_of([&] { jinja::bound_arguments("f", given, {"a"}); }) == at("", {"\"f\"", ", found 2"}));
  given.named = {{"a", jinja::value(true)}};
  CHECK(error_of([&] { jinja::bound_arguments("f", given, {"a", "b"}); }) == at("", {"\"f\"", "\"a\""}));
  given.named = {{"z", jinja::value(true)}};
  CHECK(error_of([&] { jinja::bound_arguments("f", given, {"a", "b"}); }) == at("", {"\"f\"", "\"z\""}));
  CHECK(error_of([&] { jinja::bound_arguments("f", {}, {"a", "b"}, 2); }) == at("", {"\"a\"", "\"f\""}));
}
