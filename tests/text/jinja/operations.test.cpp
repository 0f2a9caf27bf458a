// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/operations.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::runs;

TEST_CASE("whole numbers have 64 bits, and a result beyond that is refused") {
  CHECK(rendered("{{ 9223372036854775807 }}") == "9223372036854775807");
  for (const char* beyond : {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "2 ** 63",
                             "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1)|abs"}) {
    CAPTURE(beyond);
    CHECK(rendered("{{ " + std::string(beyond) + " }}").ends_with("expected whole numbers of at most 64 bits, found a larger one"));
  }
  CHECK(rendered("{{ (-9223372036854775807 - 1) % -1 }}") == "0");
  CHECK(rendered("{{ 1 / 0 }}") == at("t: line 1, column 6", {", found 0"}));
}

TEST_CASE("slices may have any bounds, but not a step of 0") {
  CHECK(rendered("{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}") == "c");
  CHECK(rendered("{{ [1, 2, 3][::9223372036854775807] }}") == "[1]");
  CHECK(rendered("{{ ''[::-1] }}{{ [][5:1:-2] }}") == "[]");
  CHECK(rendered("{{ 'abc'[::0] }}") == at("t: line 1, column 9", {", found 0"}));
  CHECK(runs("{{ ('<s>' + x + '</s>')[2:5] }}{{ ('<s>' + x)[::-1] }}", R"({"x": "é!"})") == ">{é!!é}>s<");
}

TEST_CASE("sums, products and formatted texts keep the origin of their parts") {
  CHECK(runs("{{ '<' + x + '>' }}{{ x * 2 }}{{ '-' * 2 }}{{ '<' ~ x ~ 1 }}", R"({"x": "a"})") == "<{a}>{aa}--<{a1}");
  CHECK(runs("{{ '%s|%s' % (x, '<s>') }}{{ '{}|{y}'.format(x, y='<s>') }}", R"({"x": "a"})") == "{a}|<s>{a}|<s>");
}

TEST_CASE("a text that is added to a safe text is escaped, as with Markup") {
  CHECK(runs("{{ '<s>'|safe + x }}{{ x + ('<s>'|safe) }}", R"({"x": "<a>"})") == "<s>{&lt;a&gt;&lt;a&gt;}<s>");
  CHECK(rendered("{{ '<s>'|safe ~ '<a>' }}") == "<s><a>");
}

TEST_CASE("errors name operands of the wrong kind") {
  CHECK(rendered("{{ 'a' + none }}") == at("t: line 1, column 8"));
  CHECK(rendered("{{ 'a' + x }}") == at("t: line 1, column 8", {"\"x\""}));
  CHECK(rendered("{{ 1 < 'a' }}") == at("t: line 1, column 4"));
  CHECK(rendered("{{ 'a' in none }}") == at("t: line 1, column 4"));
}
