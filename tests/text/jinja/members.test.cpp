// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/members.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;

TEST_CASE("a.b prefers methods, a[b] prefers keys") {
  constexpr std::string_view x = R"({"x": {"items": 1, "role": "user"}})";
  CHECK(rendered("{{ x.role }}{{ x['role'] }}{{ x['items'] }}{{ x.items()|length }}{{ x.items is callable }}", x) == "useruser12True");
  CHECK(rendered("{{ x['keys']()|list }}", x) == "['items', 'role']");
}

TEST_CASE("a missing member is undefined, and a member of an undefined value is an error") {
  CHECK(rendered("{{ x.a }}|{{ x['a'] }}|{{ x[0] }}|{{ none.a }}", R"({"x": {}})") == "|||");
  CHECK(rendered("{{ x.a.b }}", R"({"x": {}})") == at("t: line 1, column 7", {"\"a\""}));
  CHECK(rendered("{{ x['a']['b'] }}", R"({"x": {}})") == at("t: line 1, column 10", {"\"a\""}));
  CHECK(rendered("{{ [][0].a }}") == at("t: line 1, column 9"));
}

TEST_CASE("an attribute may be a path of names and numbers") {
  CHECK(rendered("{{ x|map(attribute='a.0')|list }}{{ x|map(attribute='b', default=7)|list }}",
                 R"({"x": [{"a": [5]}, {"a": [6], "b": 1}]})") == "[5, 6][7, 1]");
  CHECK(rendered("{{ ['ab']|map(attribute=0)|list }}") == "['a']");
}

TEST_CASE("a loop variable that is kept after the loop stays at the last item") {
  CHECK(
      rendered(
          "{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}{{ ns.l.previtem }}{{ ns.l.last }}") ==
      "21True");
}
