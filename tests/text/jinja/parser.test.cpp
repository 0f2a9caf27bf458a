// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/parser.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "text/jinja/rendering.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::code_of;
using lazyprune_test::rendered;
using lazyprune_test::unsupported;

TEST_CASE("constructs of Jinja that are not supported are refused with their place") {
  constexpr std::string_view statements = "expected if, for, set, macro, call, filter, with, break, continue, generation or raw, found ";
  CHECK(rendered("a\n  {% include 'x' %}") == "t: line 2, column 6: " + std::string(statements) + "\"include\"");
  CHECK(rendered("{% endif %}") == "t: line 1, column 4: " + std::string(statements) + "\"endif\"");
  CHECK(rendered("{% for x in y recursive %}{% endfor %}") == unsupported("t: line 1, column 15", {"\"recursive\""}));
  CHECK(rendered("{{ f(**x, y) }}") == at("t: line 1, column 11", {"\"y\""}));
  CHECK(rendered("{{ x[1:2, 3] }}") == unsupported("t: line 1, column 9", {"\",\""}));
  CHECK(rendered("{{ x[1, 2:3] }}") == unsupported("t: line 1, column 10", {"\":\""}));
  CHECK(rendered("{{ 99999999999999999999 }}") == unsupported("t: line 1, column 4", {"64", "\"99999999999999999999\""}));
  CHECK(rendered("{{ 1e999 }}") == unsupported("t: line 1, column 4", {"\"1e999\""}));
  CHECK(code_of([] { chat_template("{% block x %}"); }) == error_code::unsupported);
}

TEST_CASE("syntax errors are named with their place") {
  CHECK(rendered("{% if x %}a") == at("t: line 1, column 12"));
  CHECK(rendered("{{ }}") == at("t: line 1, column 4", {"\"}}\""}));
  CHECK(rendered("{{ a b }}") == at("t: line 1, column 6", {"\"}}\"", "\"b\""}));
  CHECK(rendered("{% if x") == at("t: line 1, column 1"));
  CHECK(rendered("{% break %}") == at("t: line 1, column 4", {"\"break\""}));
  CHECK(rendered("{% for x in y %}{% set z %}{% break %}{% endset %}{% endfor %}") == at("t: line 1, column 31", {"\"break\""}));
  CHECK(rendered("{% set true = 1 %}") == at("t: line 1, column 8", {"\"true\""}));
  CHECK(rendered("{% for x on y %}{% endfor %}") == at("t: line 1, column 10", {"\"in\"", "\"on\""}));
  CHECK(rendered("{% macro m(a=1, b) %}{% endmacro %}") == at("t: line 1, column 18", {"\")\""}));
  CHECK(rendered("{% call x %}{% endcall %}") == at("t: line 1, column 11", {"\"%}\""}));
  CHECK(rendered("{{ f(a=1, 2) }}") == at("t: line 1, column 11", {"\"2\""}));
  CHECK(rendered("{% %}") == at("t: line 1, column 4", {"\"%}\""}));
  CHECK(rendered("{{ 'a' 1 }}") == at("t: line 1, column 8", {"\"}}\"", "\"1\""}));
}

TEST_CASE("operators have the precedence of jinja2") {
  CHECK(rendered("{{ 1 + 2 * 3 ** 2 }}{{ (1 + 2) * 3 }}{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}") == "199644");
  CHECK(rendered("{{ 1 ~ 2 * 3 }}{{ not 1 == 2 }}{{ 1 if 0 else 2 if 0 else 3 }}{{ 'a' 'b'|upper }}") == "16True3AB");
  CHECK(rendered("{{ 'a' ~ 'b'|upper ~ 'c' }}{{ -1|abs }}{{ [1, 2,] }}{{ {'a': 1,} }}{{ 1, 2 }}") == "aBc1[1, 2]{'a': 1}(1, 2)");
}

TEST_CASE("nesting of every form has a limit") {
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
  CHECK(rendered("{% if 0 %}" + many("{% elif 0 %}") + "{% else %}x{% endif %}") == "x");  // the branches of one if are not nested
}
