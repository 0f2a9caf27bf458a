// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/formatting.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::runs;
using lazyprune_test::unsupported;

TEST_CASE("the format's text and the padding keep the format's origin, strings keep theirs, and numbers count as the user's text") {
  constexpr std::string_view x = R"({"x": "é", "f": "[%3s]", "g": "[{:>3}]"})";
  const auto shown = [&](std::string_view expression) { return runs("{{ " + std::string(expression) + " }}", x); };
  CHECK(shown("'<%3s>%-3s<%s>' % (x, x, '<s>')") == "<  {é}>{é}  <<s>>");
  CHECK(shown("'<%04d>' % 7") == "<{0007}>");
  CHECK(shown("'<%4d>' % 7") == "<   {7}>");
  CHECK(shown("f % '<s>'") == "{[}<s>{]}");
  CHECK(shown("f % 's'") == "{[  }s{]}");
  CHECK(shown("'<{:*^5}>{:>3}'.format(x, '<s>')") == "<**{é}**><s>");
  CHECK(shown("g.format('s')") == "{[  }s{]}");
  CHECK(shown("'<{:{}>4}>'.format('a', x)") == "<{ééé}a>");
  CHECK(shown("'<%(a)s%(b)s>'|format(a=x, b='<s>')") == "<{é}<s>>");
  CHECK(shown("'%r%.1s' % ('<s>', '<s>')") == "{'}<s>{'}<");
  CHECK(shown("'%a' % x") == "{'\\xe9'}");
}

TEST_CASE("an argument name that a user wrote stays the user's text") {
  CHECK(runs("{{ '%s'|format(**{x: 1, 'b': 2}) }}", R"({"x": "<s>"})") == "{{'}b{': 2, '<s>': 1}}");
}

TEST_CASE("long numbers are formatted without overflow") {
  CHECK(rendered("{{ '%d %x %o' % (-9223372036854775807 - 1, -9223372036854775807 - 1, 9223372036854775807) }}") ==
        "-9223372036854775808 -8000000000000000 777777777777777777777");
  CHECK(rendered("{{ '{:,} {:#_b}'.format(-9223372036854775807 - 1, 257) }}") == "-9,223,372,036,854,775,808 0b1_0000_0001");
  CHECK(rendered("{{ '{:010,} {:011,} {:012,}'.format(1234567, 1234567, 1234567) }}") == "01,234,567 001,234,567 0,001,234,567");
  CHECK(rendered("{{ ('%.400f' % 0.1)|length }}") == "402");
}

TEST_CASE("faulty formats are refused with their place") {
  CHECK(rendered("{{ '%q' % 1 }}") == at("t: line 1, column 9", {"\"%q\""}));
  CHECK(rendered("{{ '%s' % (1, 2) }}") == at("t: line 1, column 9", {"1"}));
  CHECK(rendered("{{ '%(a)s' % {'b': 1} }}") == at("t: line 1, column 12", {"\"a\""}));
  CHECK(rendered("{{ '%(a' % {'a': 1} }}") == at("t: line 1, column 10"));
  CHECK(rendered("{{ '%d'|format(none) }}") == at("t: line 1, column 9", {"\"d\""}));
  CHECK(rendered("{{ '%s'|format(1, a=2) }}") == at("t: line 1, column 9"));
  CHECK(rendered("{{ '{:z}'.format(1) }}") == unsupported("t: line 1, column 17", {"\"z\""}));
  CHECK(rendered("{{ '{:{:{}}}'.format(1, 2, 3) }}").starts_with("t: line 1, column 21"));
  CHECK(rendered("{{ '{a.b}'.format(a=nope) }}").starts_with("t: line 1, column 18"));
  CHECK(rendered("{{ '{a!x}'.format(a=1) }}") == at("t: line 1, column 18", {"\"!x\""}));
  CHECK(rendered("{{ '{a[}'.format(a=1) }}").starts_with("t: line 1, column 17"));
}
