// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/json_reader.hpp>

#include <doctest/doctest.h>

#include <string>

#include <lazyprune/text/jinja/printing.hpp>

#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;

static std::string read(std::string_view text) {
  std::string shown;
  jinja::budget work(1'000'000);
  const std::string fault = error_of([&] {
    shown = [&] {
      jinja::tagged_text out;
      jinja::append_repr(jinja::read_json(text, "f.json", 10'000), out, work);
      return out.bytes();
    }();
  });
  return fault == "no error" ? shown : fault;
}

TEST_CASE("values come in the text's order, and strings are the user's") {
  CHECK(read(R"({"z": 1, "a": [2.0, -3, true, null, "x"], "m": {}})") == "{'z': 1, 'a': [2.0, -3, True, None, 'x'], 'm': {}}");
  const jinja::value v = jinja::read_json(R"({"<s>": "</s>"})", "f.json", 100);
  CHECK_FALSE(v.dict()->entries[0].key.text()->trusted());
  CHECK_FALSE(v.dict()->entries[0].item.text()->trusted());
}

TEST_CASE("what is not strict, and whole numbers beyond 64 bits, are refused") {
  CHECK(read(R"({"a": 1, "a": 2})") == "f.json: a: expected the key once, found it twice in one object");
  CHECK(read("9223372036854775807") == "9223372036854775807");
  CHECK(read("9223372036854775808") == "f.json: expected whole numbers of at most 64 bits, found 9223372036854775808");
  CHECK(read("123456789012345678901234567890") ==
        "f.json: expected whole numbers of at most 64 bits, found 123456789012345678901234567890");
  CHECK(read("[1,]").starts_with("f.json: byte 3: expected JSON, found "));
  CHECK(read(std::string(65, '[') + std::string(65, ']')) == "f.json: expected JSON of at most 64 levels, found more");
  CHECK(read('"' + std::string(10'000, 'a') + '"') == "f.json: expected at most 10000 bytes, found 10002");
}
