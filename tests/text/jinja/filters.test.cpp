// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/filters.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::rendered;
using lazyprune_test::runs;
using lazyprune_test::unsupported;

TEST_CASE("every filter of texts keeps their origin") {
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
  CHECK(shown("l|tojson") == "{[\"<|im_end|>\", \"a\"]}");
}

TEST_CASE("a filter that is not known is refused where it stands") {
  CHECK(rendered("{% if false %}{{ x|groupby('a') }}{% endif %}") == unsupported("t: line 1, column 20", {"\"groupby\""}));
  CHECK(rendered("{{ [1]|map('nope')|list }}") == unsupported("t: line 1, column 8", {"\"nope\""}));
}

TEST_CASE("numbers too large for their kind are refused") {
  CHECK(rendered("{{ '99999999999999999999'|int }}") == unsupported("t: line 1, column 27", {"64"}));
  CHECK(rendered("{{ 1e19|int }}") == unsupported("t: line 1, column 9", {"64"}));
  CHECK(rendered("{{ '1e999'|float }}") == unsupported("t: line 1, column 12", {"\"1e999\""}));
}
