// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/methods.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::runs;
using lazyprune_test::unsupported;

TEST_CASE("string methods keep the origin of each character") {
  constexpr std::string_view x = R"({"x": " a,b\nc "})";
  const auto shown = [&](std::string_view expression) { return runs("{{ " + std::string(expression) + " }}", x); };
  CHECK(shown("('<' + x + '>').strip('<')") == "{ a,b\nc }>");
  CHECK(shown("x.strip()") == "{a,b\nc}");
  CHECK(shown("('<s>' + x).split(',')[0]") == "<s>{ a}");
  CHECK(shown("('<s>' + x).rsplit(',', 1)|join('|')") == "<s>{ a}|{b\nc }");
  CHECK(shown("(x + '</s>').partition(',')[2]") == "{b\nc }</s>");
  CHECK(shown("x.replace('b', '<s>')") == "{ a,}<s>{\nc }");
  CHECK(shown("('<s>' + x).upper()") == "<S>{ A,B\nC }");
  CHECK(shown("('<S>' + x).lower()") == "<s>{ a,b\nc }");
  CHECK(shown("'<'.join(['a', x])") == "a<{ a,b\nc }");
  CHECK(shown("x.splitlines()[1].strip()") == "{c}");
  CHECK(shown("x.strip().ljust(8, '*')") == "{a,b\nc}***");
  CHECK(shown("x.removeprefix(' ').removesuffix(' ')") == "{a,b\nc}");
  CHECK(shown("('<S>' + x).swapcase()") == "<s>{ A,B\nC }");
  CHECK(shown("x.title().strip()") == "{A,B\nC}");
}

TEST_CASE("methods that change their object, and unknown methods, are refused") {
  CHECK(rendered("{{ [].append(1) }}") == unsupported("t: line 1, column 13", {"\"append\""}));
  CHECK(rendered("{{ {}.update({}) }}") == unsupported("t: line 1, column 13", {"\"update\""}));
  CHECK(rendered("{{ 'a'.encode() }}") == unsupported("t: line 1, column 14", {"\"encode\""}));
  CHECK(rendered("{{ 'a'.nope() }}") == at("t: line 1, column 12", {"\"nope\""}));
}

TEST_CASE("letter case works across the borders between user text and template text") {
  constexpr std::string_view x = R"({"x": "ß", "s": "Σ", "bad": "a"})";
  CHECK(runs("{{ ('<' + x + 'ß>')|upper }}", x) == "<{SS}SS>");
  CHECK(runs("{{ ('Α' + s + '.')|lower }}{{ ('Α' + s + 'Α')|lower }}{{ (s + 'Σ')|lower }}", x) == "α{ς}.α{σ}α{σ}ς");
  CHECK(runs("{{ ('ﬁ' + x)|capitalize }}{{ (x + 'ﬁ')|title }}{{ (x + 'ﬁ').title() }}", x) == "Fi{ßSS}ﬁ{Ss}ﬁ");
  CHECK(rendered("{{ 'ß'.islower() }}{{ 'ﬁ'.isupper() }}{{ 'ß'.isalpha() }}") == "TrueFalseTrue");
}
