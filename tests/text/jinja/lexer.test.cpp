// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/lexer.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

/// Returns the tokens: each text in square brackets, and each tag with its delimiters and a space before each of its tokens.
static std::string cut(std::string_view source) {
  std::string shown;
  for (const jinja::token& t : jinja::lexer(source, "t").run()) {
    using enum jinja::token_kind;
    if (t.kind == text) shown += '[' + t.text + ']';
    if (t.kind == begin_output || t.kind == begin_block) shown += t.kind == begin_output ? "{{" : "{%";
    if (t.kind == end_output || t.kind == end_block) shown += t.kind == end_output ? "}}" : "%}";
    if (t.kind >= name && t.kind < end) shown += ' ' + t.text;
  }
  return shown;
}

TEST_CASE("white space around tags is removed as in jinja2") {
  CHECK(cut("a\n  {% x %}\nb") == "[a\n]{% x%}[b]");
  CHECK(cut("a  {% x %}\n\nb") == "[a  ]{% x%}[\nb]");
  CHECK(cut("a\n  {%+ x +%}\nb") == "[a\n  ]{% x%}[\nb]");
  CHECK(cut("a\n  {%- x -%}  \n b") == "[a]{% x%}[b]");
  CHECK(cut("  {{ x }}\n b\n\n") == "[  ]{{ x}}[\n b\n]");
  CHECK(cut("a {{- x -}} b") == "[a]{{ x}}[b]");
  CHECK(cut("{#- c -#} a\n {# d #}\nb") == "[a\n][b]");
  CHECK(cut("a\r\nb\rc\r\n") == "[a\nb\nc]");
  CHECK(cut("") == "");
}

TEST_CASE("the inside of a raw block is text") {
  CHECK(cut("{% raw %}{{ x }}{% if %}{% endraw %}!") == "[{{ x }}{% if %}][!]");
  CHECK(cut("a\n {%- raw -%} {{ {%- endraw -%} b") == "[a][{{][b]");
  CHECK(cut("{% rawness %}") == "{% rawness%}");
}

TEST_CASE("expressions are cut into tokens") {
  CHECK(cut("{{ a.b[1:2] ** 3 // 4 }}") == "{{ a . b [ 1 : 2 ] ** 3 // 4}}");
  CHECK(cut("{{ 1.5 1_000 2e3 1. x.0.1 }}") == "{{ 1.5 1000 2e3 1 . x . 0 . 1}}");
  CHECK(cut("{{ {'a': {}} }}") == "{{ { a : { } }}}");
  CHECK(cut(R"({{ '\n\x41\u00e9\101\q\'' "b" }})") ==
        "{{ \n"
        "A\xc3\xa9"
        "A\\q' b}}");
}

TEST_CASE("faults are named with line and column") {
  const auto fault = [](std::string_view source) { return error_of([&] { jinja::lexer(source, "t").run(); }); };
  CHECK(fault("a\n\xc3\xa9{{ 'x") == at("t: line 2, column 5"));
  CHECK(fault("{{ x") == at("t: line 1, column 1"));
  CHECK(fault("{# x") == at("t: line 1, column 1"));
  CHECK(fault("{% raw %}x") == at("t: line 1, column 1"));
  CHECK(fault("{{ (] }}") == at("t: line 1, column 5", {"\")\"", "\"]\""}));
  CHECK(fault("{{ ) }}") == at("t: line 1, column 4", {"\")\""}));
  CHECK(fault("{{ a $ b }}") == at("t: line 1, column 6", {"\"$\""}));
  CHECK(fault(R"({{ '\xZZ' }})") == at("t: line 1, column 5"));
  CHECK(fault(R"({{ '\ud800' }})") == at("t: line 1, column 5"));
}
