// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/interpreter.hpp>

#include <doctest/doctest.h>

#include <string>

#include <nlohmann/json.hpp>

#include <sstream>

#include "test_data.hpp"
#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::runs;

TEST_CASE("small templates render as jinja2 renders them") {  // make_golden.py writes golden.jsonl
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

TEST_CASE("loops, macros and with blocks have scopes of their own, a loop a new one for each iteration; an if has none") {
  CHECK(rendered("{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}") == "01020");
  CHECK(rendered("{% if 1 %}{% set x = 1 %}{% endif %}{{ x }}{% with %}{% set x = 2 %}{% endwith %}{{ x }}") == "11");
  CHECK(rendered("{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}") == "5");
  CHECK(rendered("{% generation %}a{% endgeneration %}") == "a");
}

TEST_CASE("macros and loops of a scope that has ended can still be used") {
  CHECK(
      rendered(
          "{% set ns = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}") ==
      "2");
  CHECK(
      rendered("{% set ns = namespace() %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}{% call m() %}hi{% endcall %}{{ ns.c() }}") ==
      "hi");
  CHECK(rendered("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x[0] == ns }}") == "True");
}

TEST_CASE("text that set blocks, macros, calls and filters capture keeps its origin") {
  constexpr std::string_view x = R"({"x": "hi"})";
  CHECK(runs("{% set y %}<s>{{ x }}</s>{% endset %}{{ y }}", x) == "<s>{hi}</s>");
  CHECK(runs("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) + m('y') }}", x) == "<{hi}><y>");
  CHECK(runs("{% macro m() %}<{{ caller(x) }}>{% endmacro %}{% call(a) m() %}-{{ a }}{% endcall %}", x) == "<-{hi}>");
  CHECK(runs("{% filter upper %}<s>{{ x }}{% endfilter %}{% set y|trim %} {{ x }} {% endset %}{{ y }}", x) == "<S>{HIhi}");
  CHECK(runs("{{ bos_token }}{% for c in x %}{{ c }}{{ loop.index }}{% endfor %}{{ x if x else '' }}", x) == "<s>{h1i2hi}");
}

TEST_CASE("hostile templates end, because everything that takes time or memory costs steps") {
  // An endless template fails by ctest's time limit.
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
      "{{ '%1000000000d' % 1 }}",
      "{{ '%-*s' % (1000000000, 'a') }}",
      "{{ '%.1000000000f' % 0.5 }}",
      "{{ '{:>1000000000}'.format('a') }}",
      "{{ '{:01000000000,}'.format(1) }}",
      "{{ '{:.1000000000e}'.format(0.5) }}",
      "{% for i in range(1000000) %}{% set j = joiner() %}{% endfor %}",
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

TEST_CASE("tuples within tuples are unpacked, also into members of namespaces") {
  CHECK(rendered("{% for i, (a, b) in [[1, [2, 3]]] %}{{ i }}{{ a }}{{ b }}{% endfor %}") == "123");
  CHECK(rendered("{% set (a, (b,)), c = ((1, [2]), 3) %}{{ a }}{{ b }}{{ c }}") == "123");
  CHECK(rendered("{% set ns = namespace(a=0, b=0) %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}") == "12");
  CHECK(rendered("{% set ns = namespace() %}{% set (ns.a, x), y = [[1, 2], 3] %}") == at("t: line 1, column 37"));
  CHECK(rendered("{% set a, (b, c) = 1, [2] %}") == at("t: line 1, column 1", {"2", "1"}));
  CHECK(rendered("{% for ns.a in [1] %}{% endfor %}") == at("t: line 1, column 10"));
}

TEST_CASE("the items of a joiner or a cycler keep their origin, in loops and in macros") {
  constexpr std::string_view x = R"({"x": "-"})";
  CHECK(runs("{% set j = joiner(x) %}{% for i in 'abc' %}{{ j() }}{{ i }}{% endfor %}", x) == "a{-}b{-}c");
  CHECK(runs("{% macro m(j) %}{{ j() }}{% endmacro %}{% set j = joiner('<s>') %}{{ m(j) }}{{ m(j) }}{{ j() }}") == "<s><s>");
  CHECK(runs("{% set c = cycler(x, '<s>') %}{% for i in 'abc' %}{{ c.next() }}{% endfor %}{{ c.current }}", x) == "{-}<s>{-}<s>");
  CHECK(rendered("{{ joiner(', ').next() }}") == at("t: line 1, column 21"));
  CHECK(rendered("{{ cycler() }}") == at("t: line 1, column 10"));
}

TEST_CASE("arguments are unpacked from sequences and dictionaries") {
  CHECK(rendered("{% macro f(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(*[1, 2], **{'c': 3}) }}{{ f(1, *(2, 3)) }}") == "123123");
  CHECK(
      rendered(
          "{% set ns = namespace(d={}) %}{% for k in ['x', 'y'] %}{% set ns.d = dict(ns.d, **{k: loop.index}) %}{% endfor %}{{ ns.d }}") ==
      "{'x': 1, 'y': 2}");
  CHECK(rendered("{{ dict(a=1, **{'a': 2}) }}") == at("t: line 1, column 22", {"\"a\""}));
  CHECK(rendered("{{ dict(**[1]) }}") == at("t: line 1, column 12"));
  CHECK(runs("{% for k in dict(a=1, **{messages[0].content: 2}) %}{{ k }}{% endfor %}",
             R"({"messages": [{"role": "user", "content": "<|im_end|>"}]})") == "a{<|im_end|>}");
  CHECK(runs("{% for k in dict(**{'b': 2}) %}{{ k }}{% endfor %}") == "b");
}

TEST_CASE("a dictionary accepts the kinds of keys that Python can hash, and no others") {
  CHECK(rendered("{% set d = {none: 'n', 1.5: 'f', true: 't', (0, 1): 'p'} %}{{ d[none] }}{{ d[1.5] }}{{ d[true] }}{{ d[(0, 1)] }}") ==
        "nftp");
  CHECK(rendered("{% set d = {1: 'a', true: 'b', 1.0: 'c'} %}{{ d }}{{ d[1] }}") == "{1: 'c'}c");
  CHECK(rendered("{{ {(1, 'a', none): 2} }}{{ (1, 'a') in {(1, 'a'): 0} }}{{ ('a1',) in {('a', 1): 0} }}") ==
        "{(1, 'a', None): 2}TrueFalse");
  CHECK(rendered("{{ {none: 1, true: 2, 1.5: 3, 4: 5}|tojson }}") == R"({"null": 1, "true": 2, "1.5": 3, "4": 5})");
  std::string many = "{% set d = {";
  for (int i = 0; i < 20; ++i) many += std::to_string(i) + ".5: " + std::to_string(i) + ", (" + std::to_string(i) + ",): 'p', ";
  CHECK(rendered(many + "none: 'n'} %}{{ d[7.5] }}{{ d[(9,)] }}{{ d[none] }}{{ d|length }}") == "7pn41");
  CHECK(rendered("{{ {[1]: 2} }}") == at("t: line 1, column 4"));
  CHECK(rendered("{{ {(1, [2]): 2} }}") == at("t: line 1, column 4"));
}

TEST_CASE("a macro knows its name") { CHECK(rendered("{% macro f(a) %}{% endmacro %}{{ f.name }}") == "f"); }
