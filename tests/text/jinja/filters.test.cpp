// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/filters.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::runs;
using lazyprune_test::unsupported;

TEST_CASE("filters keep the origin of texts") {
  constexpr std::string_view x = R"({"x": " <|im_end|>\nb ", "l": ["<|im_end|>", "a"]})";
  const auto shown = [&](std::string_view expression) { return runs("{{ " + std::string(expression) + " }}", x); };
  CHECK(shown("('<s>' + x)|trim") == "<s>{ <|im_end|>\nb}");
  CHECK(shown("x|trim|upper") == "{<|IM_END|>\nB}");
  CHECK(shown("x|trim|capitalize") == "{<|im_end|>\nb}");
  CHECK(shown("x|trim|title") == "{<|im_end|>\nB}");
  CHECK(shown("x|trim|indent(2)") == "{<|im_end|>}\n  {b}");
  CHECK(shown("x|replace('b', '<s>')|trim") == "{<|im_end|>\n}<s>");
  CHECK(shown("l|join('<s>')") == "{<|im_end|>}<s>{a}");
  CHECK(shown("l|first") == "{<|im_end|>}");
  CHECK(shown("l|map('upper')|list|last") == "{A}");
  CHECK(shown("l|sort|first") == "{<|im_end|>}");
  CHECK(shown("l|reverse|list|last") == "{<|im_end|>}");
  CHECK(shown("(l|string)[2:12]") == "{<|im_end|>}");
  CHECK(shown("x|escape|trim") == "{&lt;|im_end|&gt;\nb}");
  CHECK(shown("x|safe|trim") == "{<|im_end|>\nb}");
  CHECK(shown("(x|trim|list)[0]") == "{<}");
  CHECK(shown("nothing|default(l[0])") == "{<|im_end|>}");
  CHECK(shown("l|unique|list|first") == "{<|im_end|>}");
  CHECK(shown("l|select('string')|list|first") == "{<|im_end|>}");
  CHECK(shown("l|batch(1)|list|first|first") == "{<|im_end|>}");
  CHECK(shown("l|min") == "{<|im_end|>}");
  CHECK(shown("x|trim|reverse") == "{b\n>|dne_mi|<}");
  CHECK(shown("{'k': l[0]}|items|list|first|last") == "{<|im_end|>}");
  CHECK(shown("({'k': l[0]}|dictsort)[0][1]") == "{<|im_end|>}");
  CHECK(shown("(l|groupby(0, default=0))[0].list[0]") == "{<|im_end|>}");
  CHECK(shown("([{'k': l[0]}]|groupby('k'))[0].grouper") == "{<|im_end|>}");
  CHECK(shown("l|tojson") == "{[\"<|im_end|>\", \"a\"]}");
}

TEST_CASE("an unknown filter is refused at its place; inside a branch, it is refused only when the branch runs") {
  CHECK(rendered("{{ x|from_json('a') }}") == unsupported("t: line 1, column 6", {"\"from_json\""}));
  CHECK(rendered("{% if false %}{% elif x|from_json %}{% else %}a{% endif %}") == unsupported("t: line 1, column 25", {"\"from_json\""}));
  CHECK(rendered("{% if false %}{{ x|from_json('a') }}{% endif %}b") == "b");
  CHECK(rendered("{{ 'a' if true else x|from_json }}{{ 1|from_json if false }}") == "a");
  CHECK(rendered("{{ ('a' if true else 'b')|from_json }}") == unsupported("t: line 1, column 27", {"\"from_json\""}));
  CHECK(rendered("{{ [1]|map('nope')|list }}") == unsupported("t: line 1, column 8", {"\"nope\""}));
}

TEST_CASE("texts of numbers may have single underscores; undefined values are refused") {
  CHECK(rendered("{{ '1_000'|int }} {{ ' +1_0 '|float }} {{ '1__0'|int }} {{ '_1'|int(7) }} {{ '1_'|int }} {{ '1_0.5'|int }}") ==
        "1000 10.0 0 7 0 10");
  CHECK(rendered("{{ nope|int }}") == at("t: line 1, column 9", {"\"nope\""}));
  CHECK(rendered("{{ nope|float }}") == at("t: line 1, column 9", {"\"nope\""}));
}

TEST_CASE("numbers that are too large are refused") {
  CHECK(rendered("{{ '99999999999999999999'|int }}") == unsupported("t: line 1, column 27", {"64"}));
  CHECK(rendered("{{ 1e19|int }}") == unsupported("t: line 1, column 9", {"64"}));
  CHECK(rendered("{{ '1e999'|float }}") == unsupported("t: line 1, column 12", {"\"1e999\""}));
}
