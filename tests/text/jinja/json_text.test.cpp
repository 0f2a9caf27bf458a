// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/json_text.hpp>

#include <doctest/doctest.h>

#include "text/jinja/rendering.hpp"

using lazyprune_test::at;
using lazyprune_test::rendered;
using lazyprune_test::runs;

constexpr std::string_view tools = R"({"x": {"b": [1, 2.5, true, null], "a": {"c": "é\"\n\u0001</s>", "d": {}, "e": []}}})";

TEST_CASE("keys keep their order, and characters beyond ASCII are not escaped") {
  CHECK(rendered("{{ x|tojson }}", tools) == R"({"b": [1, 2.5, true, null], "a": {"c": "é\"\n\u0001</s>", "d": {}, "e": []}})");
}

TEST_CASE("tojson accepts the arguments of json.dumps") {
  CHECK(rendered("{{ x|tojson(sort_keys=true, separators=(',', ':'), ensure_ascii=true) }}", tools) ==
        R"({"a":{"c":"\u00e9\"\n\u0001</s>","d":{},"e":[]},"b":[1,2.5,true,null]})");
  CHECK(rendered("{{ x|tojson(indent=2) }}", R"({"x": {"a": [1, {}], "b": []}})") == "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
  CHECK(rendered("{{ '\\U0001F600\\x7f'|tojson(ensure_ascii=true) }}") == R"("\ud83d\ude00\u007f")");
  CHECK(rendered("{{ (1e308 * 10)|tojson }}") == "Infinity");
}

TEST_CASE("strings keep their origin; escapes and punctuation count as the user's text") {
  CHECK(runs("{{ ['<s>', x]|tojson }}", R"({"x": "</s>\n"})") == "{[\"}<s>{\", \"</s>\\n\"]}");
}

TEST_CASE("values that JSON cannot hold are refused") {
  CHECK(rendered("{{ nothing|tojson }}") == at("t: line 1, column 12", {"\"nothing\""}));
  CHECK(rendered("{{ [namespace()]|tojson }}") == at("t: line 1, column 18"));
}
