// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/clock.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::rendered;
using lazyprune_test::runs;
using lazyprune_test::unsupported;

TEST_CASE("SOURCE_DATE_EPOCH is read in UTC") {
  const std::tm time = jinja::template_time("1721984703");
  CHECK(time.tm_year == 124);
  CHECK(time.tm_hour == 9);
  for (const char* wrong : {"", "x", "12x", "-1", "999999999999", "99999999999999999999"})
    CHECK(error_of([&] { jinja::template_time(wrong); }) == at("SOURCE_DATE_EPOCH", {"1970", "10000", wrong}));
  CHECK(jinja::template_time(nullptr).tm_year >= 124);
}

TEST_CASE("only strftime's directives are accepted") {
  CHECK(rendered("{{ strftime_now('%d %b %Y|%B %-d, %y|%H:%M:%S.%f|%A %j %p %I|%F %T %%') }}") ==
        "26 Jul 2024|July 26, 24|09:05:03.000000|Friday 208 AM 09|2024-07-26 09:05:03 %");
  CHECK(rendered("{{ strftime_now('%100d') }}") == unsupported("t: line 1, column 16", {"\"%1\""}));
  CHECK(rendered("{{ strftime_now('%') }}") == unsupported("t: line 1, column 16", {"\"%\""}));
  CHECK(runs("{{ strftime_now('<s>') }}{{ strftime_now(x) }}", R"({"x": "</s>"})") == "<s>{</s>}");
}
