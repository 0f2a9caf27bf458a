// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/json_reader.hpp>

#include <doctest/doctest.h>

#include <string>

#include <lazyprune/text/jinja/printing.hpp>

#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

static lazyprune_test::fault read(std::string_view text) {
  lazyprune_test::fault shown;
  jinja::budget work(1'000'000);
  const lazyprune_test::fault said = error_of([&] {
    jinja::tagged_text out;
    jinja::append_repr(jinja::read_json(text, "f.json", 10'000), out, work);
    shown.assign(out.bytes());
  });
  return said == "no error" ? shown : said;
}

TEST_CASE("keys keep the order of the JSON text, and strings count as the user's text") {
  CHECK(read(R"({"z": 1, "a": [2.0, -3, true, null, "x"], "m": {}})") == "{'z': 1, 'a': [2.0, -3, True, None, 'x'], 'm': {}}");
  const jinja::value v = jinja::read_json(R"({"<s>": "</s>"})", "f.json", 100);
  CHECK_FALSE(v.dict()->entries[0].key.text()->trusted());
  CHECK_FALSE(v.dict()->entries[0].item.text()->trusted());
}

TEST_CASE("JSON is refused if it is not strict, too deep or too long, or if it has whole numbers beyond 64 bits") {
  CHECK(read(R"({"a": 1, "a": 2})") == at("f.json: a"));
  CHECK(read("9223372036854775807") == "9223372036854775807");
  CHECK(read("9223372036854775808") == at("f.json", {"64", "9223372036854775808"}));
  CHECK(read("123456789012345678901234567890") == at("f.json", {"64", "123456789012345678901234567890"}));
  CHECK(read("[1,]") == at("f.json: byte 3"));
  CHECK(read(std::string(65, '[') + std::string(65, ']')) == at("f.json", {"64"}));
  CHECK(read('"' + std::string(10'000, 'a') + '"') == at("f.json", {"10000", "10002"}));
}
