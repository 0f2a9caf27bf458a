// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/parser.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "text/jinja/rendering.hpp"

using namespace lazyprune;
using lazyprune_test::code_of;
using lazyprune_test::rendered;

TEST_CASE("what is not of our part of Jinja is refused with its place") {
  constexpr std::string_view statements = "expected if, for, set, macro, call, filter, with, break, continue, generation or raw, found ";
  CHECK(rendered("a\n  {% include 'x' %}") == "t: line 2, column 6: " + std::string(statements) + "\"include\"");
  CHECK(rendered("{% endif %}") == "t: line 1, column 4: " + std::string(statements) + "\"endif\"");
  CHECK(rendered("{% for x in y recursive %}{% endfor %}") == "t: line 1, column 15: expected no recursive loop, found \"recursive\"");
  CHECK(rendered("{{ f(*x) }}") == "t: line 1, column 6: expected no unpacking of arguments, found \"*\"");
  CHECK(rendered("{{ x[1, 2] }}") == "t: line 1, column 7: expected one index, found \",\"");
  CHECK(rendered("{{ 99999999999999999999 }}") ==
        "t: line 1, column 4: expected a number of at most 64 bits, found \"99999999999999999999\"");
  CHECK(rendered("{{ 1e999 }}") == "t: line 1, column 4: expected a number that a double holds, found \"1e999\"");
  CHECK(code_of([] { chat_template("{% block x %}"); }) == error_code::unsupported);
}

TEST_CASE("faults of grammar are named with their place") {
  CHECK(rendered("{% if x %}a") == "t: line 1, column 12: expected {% endif %}, found the end of the template");
  CHECK(rendered("{{ }}") == "t: line 1, column 4: expected an expression, found \"}}\"");
  CHECK(rendered("{{ a b }}") == "t: line 1, column 6: expected \"}}\", found \"b\"");
  CHECK(rendered("{% if x") == "t: line 1, column 1: expected a tag that ends with %}, found the end of the template");
  CHECK(rendered("{% break %}") == "t: line 1, column 4: expected a loop around it, found \"break\"");
  CHECK(rendered("{% for x in y %}{% set z %}{% break %}{% endset %}{% endfor %}") ==
        "t: line 1, column 31: expected a loop around it, found \"break\"");
  CHECK(rendered("{% set true = 1 %}") == "t: line 1, column 8: expected a name that can be set, found \"true\"");
  CHECK(rendered("{% for x on y %}{% endfor %}") == "t: line 1, column 10: expected \"in\", found \"on\"");
  CHECK(rendered("{% macro m(a=1, b) %}{% endmacro %}") ==
        "t: line 1, column 18: expected a default, as for the parameter before, found \")\"");
  CHECK(rendered("{% call x %}{% endcall %}") == "t: line 1, column 11: expected a call, found \"%}\"");
  CHECK(rendered("{{ f(a=1, 2) }}") == "t: line 1, column 11: expected a named argument, found \"2\"");
  CHECK(rendered("{% %}") == "t: line 1, column 4: expected a statement, found \"%}\"");
  CHECK(rendered("{{ 'a' 1 }}") == "t: line 1, column 8: expected \"}}\", found \"1\"");
}

TEST_CASE("operators bind as in jinja2") {
  CHECK(rendered("{{ 1 + 2 * 3 ** 2 }}{{ (1 + 2) * 3 }}{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}") == "199644");
  CHECK(rendered("{{ 1 ~ 2 * 3 }}{{ not 1 == 2 }}{{ 1 if 0 else 2 if 0 else 3 }}{{ 'a' 'b'|upper }}") == "16True3AB");
  CHECK(rendered("{{ 'a' ~ 'b'|upper ~ 'c' }}{{ -1|abs }}{{ [1, 2,] }}{{ {'a': 1,} }}{{ 1, 2 }}") == "aBc1[1, 2]{'a': 1}(1, 2)");
}

TEST_CASE("nesting of every form ends") {
  const auto many = [](std::string_view what, std::size_t times = 20'000) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += what;
    return all;
  };
  const std::pair<std::string, std::string> forms[] = {
      {"{{ " + many("("), "1" + many(")") + " }}"},
      {"{{ " + many("["), many("]") + " }}"},
      {"{{ " + many("{'a':"), "1" + many("}") + " }}"},
      {"{{ " + many("not "), "1 }}"},
      {"{{ " + many("-"), "1 }}"},
      {"{{ " + many("1 + "), "1 }}"},
      {"{{ 1" + many("|abs"), " }}"},
      {"{{ 1" + many(".a"), " }}"},
      {"{{ 1" + many("[1]"), " }}"},
      {"{{ f" + many("()"), " }}"},
      {"{{ " + many("1 and "), "1 }}"},
      {"{{ " + many("1 if 1 else "), "1 }}"},
      {"{{ 1" + many(" if 1"), " }}"},
      {many("{% if 1 %}"), many("{% endif %}")},
      {many("{% for a in b %}"), many("{% endfor %}")},
      {"{{ 1" + many(" is defined|abs"), " }}"},
      {many("{% set x %}"), many("{% endset %}")},
      {many("{% filter trim %}"), many("{% endfilter %}")},
  };
  for (const auto& form : forms) {
    CAPTURE(form.first.substr(0, 20));
    CHECK(rendered(form.first + form.second).ends_with("expected at most 200 nested levels, found more"));
  }
  CHECK(rendered("{% if 0 %}" + many("{% elif 0 %}") + "{% else %}x{% endif %}") == "x");  // wide, not deep
}
