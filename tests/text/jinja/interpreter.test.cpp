// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/interpreter.hpp>

#include <doctest/doctest.h>

#include <string>

#include <nlohmann/json.hpp>

#include <sstream>

#include "test_data.hpp"
#include "text/jinja/rendering.hpp"

using lazyprune_test::rendered;
using lazyprune_test::runs;

TEST_CASE("small templates render as jinja2 renders them") {  // golden.jsonl is written by make_golden.py
  std::istringstream golden(read_text(source_dir() / "tests/text/jinja/golden.jsonl"));
  std::string line, variables;
  std::size_t compared = 0, refused = 0;
  while (std::getline(golden, line)) {
    const auto test = nlohmann::ordered_json::parse(line);
    if (test.contains("variables")) {
      variables = test["variables"].dump();
      continue;
    }
    const std::string source = test["template"];
    CAPTURE(source);
    const std::string ours = rendered(source, variables);
    if (test.contains("expected")) {
      CHECK(ours == test["expected"].get<std::string>());
      ++compared;
    } else {
      CHECK(ours.starts_with("t: line "));
      ++refused;
    }
  }
  CHECK(compared > 80);
  CHECK(refused > 20);
}

TEST_CASE("scopes: a loop's names end with its turn, a namespace's stay, an if has none of its own") {
  CHECK(rendered("{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}") == "01020");
  CHECK(rendered("{% if 1 %}{% set x = 1 %}{% endif %}{{ x }}{% with %}{% set x = 2 %}{% endwith %}{{ x }}") == "11");
  CHECK(rendered("{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}") == "5");
  CHECK(rendered("{% generation %}a{% endgeneration %}") == "a");
}

TEST_CASE("what a template keeps of a scope that has ended can still be used") {
  CHECK(
      rendered(
          "{% set ns = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}") ==
      "2");
  CHECK(
      rendered("{% set ns = namespace() %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}{% call m() %}hi{% endcall %}{{ ns.c() }}") ==
      "hi");
  CHECK(rendered("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x[0] == ns }}") == "True");
}

TEST_CASE("captured text keeps its origins: set blocks, macros, calls, filters") {
  constexpr std::string_view x = R"({"x": "hi"})";
  CHECK(runs("{% set y %}<s>{{ x }}</s>{% endset %}{{ y }}", x) == "<s>{hi}</s>");
  CHECK(runs("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) + m('y') }}", x) == "<{hi}><y>");
  CHECK(runs("{% macro m() %}<{{ caller(x) }}>{% endmacro %}{% call(a) m() %}-{{ a }}{% endcall %}", x) == "<-{hi}>");
  CHECK(runs("{% filter upper %}<s>{{ x }}{% endfilter %}{% set y|trim %} {{ x }} {% endset %}{{ y }}", x) == "<S>{HIhi}");
  CHECK(runs("{{ bos_token }}{% for c in x %}{{ c }}{{ loop.index }}{% endfor %}{{ x if x else '' }}", x) == "<s>{h1i2hi}");
}

TEST_CASE("hostile templates end: steps pay for all that takes time or memory") {  // what does not end, ctest's limit ends
  const char* const hostile[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
      "{{ range(1000000000000)|list }}",
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{{ 'a' * 1000000000000 }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ ['a'] * 1000000000000 }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n - 1) if n else 1 }}{{ f(n - 1) if n else 1 }}{% endmacro %}{{ f(60) }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set a = 'a' * 200000 %}{% set b = 'a' * 100000 + 'b' %}{% for i in range(100000) %}{{ b in a }}{% endfor %}",
      "{% set a = 'a' * 500000 %}{% set b = 'a' * 499999 + 'a' %}{% for i in range(100000) %}{{ a == b }}{% endfor %}",
      "{% set a = range(10000)|list %}{% set b = range(10000)|list %}{% for i in range(100000) %}{{ a == b }}{% endfor %}",
      "{{ range(50000)|list|unique|list }}",
      "{{ 'a'.center(1000000000) }}",
      "{{ {'a': [1, 2]}|tojson(indent=1000000000) }}",
      "{{ 'a\\nb'|indent(1000000000) }}",
      "{{ ('a' * 100000).join(['b'] * 10000) }}",
      "{{ ('a' * 10000).replace('a', 'b' * 10000) }}",
      "{{ [1]|batch(1000000000000, 2)|list }}",
      "{% for i in range(1000) %}{% for c in 'a' * 100000 %}{% endfor %}{% endfor %}",
      "{% for i in range(1000000) %}{% set n = namespace(a=1) %}{% endfor %}",
      "{{ ('a' * 100000).strip('b' * 100000 + 'a') }}",
      "{% macro m(x) %}{{ caller() if caller else '' }}{% call m(x) %}a{% endcall %}{% endmacro %}{{ m(1) }}",
  };
  for (const char* source : hostile) {
    CAPTURE(source);
    const std::string line = rendered(source);
    CHECK(line.starts_with("t: line 1, column "));
    CHECK(line.ends_with(", found more"));
  }
}
