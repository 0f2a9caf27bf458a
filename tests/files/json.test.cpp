// SPDX-License-Identifier: MIT
#include <lazyprune/files/json.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <new>
#include <string>

#include <counted_allocations.hpp>
#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::json_value;

namespace {

json_value parsed(std::string_view text) { return json_value::parse(text, "f.json", 1 << 20); }

template <class Get>
fault fault_in(std::string_view text, Get get) {
  return error_of([&] { get(parsed(text)); });
}
fault fault_in(std::string_view text) {
  return error_of([&] { parsed(text); });
}

std::string nested(std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

}  // namespace

TEST_CASE("JSONTestSuite: valid texts load, invalid texts are refused with file and place" NEEDS("data")) {
  const auto folder = test_data("malformed-json");
  if (folder.empty()) return;
  std::size_t loaded = 0, refused = 0, either = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string(), text = read_text(entry.path());
    CAPTURE(name);
    const std::size_t before = lazyprune_test::allocated_bytes;
    const auto result = error_of([&] { json_value::parse(text, "f.json", 1 << 20); });
    const std::size_t allocated = lazyprune_test::allocated_bytes - before;
    if (name.starts_with("y_object_duplicated_key")) {  // valid JSON, but we refuse it
      CHECK(result == at("f.json: a"));
      ++loaded;
    } else if (name.starts_with("y_")) {
      CHECK(result == "no error");
      ++loaded;
    } else if (name.starts_with("n_")) {
      CHECK(result.starts_with("f.json: "));
      CHECK(result.find("expected JSON") != result.npos);
      CHECK(result.size() < 400);
      CHECK(allocated <= text.size() + (std::size_t{8} << 10));  // `allocated` includes memory that was freed again
      ++refused;
    } else {
      ++either;
    }
  }
  CHECK(loaded == 95);
  CHECK(refused == 188);
  CHECK(either == 35);
}

TEST_CASE("syntax errors give the byte and the text there") {
  CHECK(fault_in(R"({"a": nul})") == at("f.json: byte 9", {"\"a\""}));
  CHECK(fault_in("") == at("f.json: byte 0"));
  CHECK(fault_in("[1] x") == at("f.json: byte 4"));
  CHECK(fault_in("[1e999]") == at("f.json: byte 5"));
  CHECK(fault_in("[NaN]") == at("f.json: byte 1"));
  CHECK(fault_in("[\"\xff\"]") == at("f.json: byte 2"));
}

TEST_CASE("faults that the parser alone would accept are refused") {
  CHECK(fault_in(std::string("{}\0{", 4)) == at("f.json: byte 2"));
  CHECK(fault_in("\xef\xbb\xbf{}") == at("f.json: byte 0"));
  CHECK(fault_in(R"({"a": {"b": 1, "c": 2, "b": 3}})") == at("f.json: b"));
  CHECK(fault_in(R"([{"a": 1}, {"a": 1}])") == "no error");
}

TEST_CASE("at most 64 levels are allowed, and deep texts are refused without recursion") {
  CHECK(fault_in(nested(64)) == "no error");
  CHECK(fault_in(nested(65)) == at("f.json", {"64"}));
  CHECK(fault_in(std::string(100'000, '[')) == at("f.json", {"64"}));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(fault_in(objects) == at("f.json", {"64"}));
}

TEST_CASE("the caller's limit of bytes holds") {
  CHECK(error_of([] { json_value::parse("[1, 2]", "f.json", 5); }) == at("f.json", {", found 6"}));
  CHECK(error_of([] { json_value::parse("[1, 2]", "f.json", 6); }) == "no error");
}

TEST_CASE("for one text of a larger file, the places in errors begin with the caller's words") {
  CHECK(error_of([] { json_value::parse("[1,]", "f.jsonl", 100, "line 3"); }) == at("f.jsonl: line 3: byte 3"));
  CHECK(error_of([] { json_value::parse("{}", "f.jsonl", 100, "line 3").at("step"); }) == at("f.jsonl: line 3", {"\"step\""}));
  CHECK(error_of([] {
          json_value::parse(R"({"step": -1})", "f.jsonl", 100, "line 3").at("step").whole_number();
        }).starts_with("f.jsonl: line 3: step: "));
}

TEST_CASE("values of all kinds are read") {
  const json_value root =
      parsed(R"({"n": 18, "big": 9223372036854775808, "x": -1.5e3, "yes": true, "s": "h\u00e9", "none": null, "a": [1, null, "z"]})");
  CHECK(root.at("n").whole_number() == 18);
  CHECK(root.at("n").number() == 18.0);
  CHECK(root.at("big").whole_number() == std::uint64_t{1} << 63);
  CHECK(root.at("x").number() == -1500.0);
  CHECK(root.at("yes").boolean());
  CHECK(root.at("s").string() == "h\xc3\xa9");
  CHECK_FALSE(root.find("none").has_value());
  CHECK_FALSE(root.find("missing").has_value());
  CHECK(root.at("none").is_null());
  const auto items = root.at("a").items();
  REQUIRE(items.size() == 3);
  CHECK(items[0].whole_number() == 1);
  CHECK(items[1].is_null());
  CHECK(items[2].string() == "z");
  CHECK(items[2].place() == "a[2]");
  CHECK(root.members().size() == 7);
  CHECK(root.members().front().first == "a");
}

TEST_CASE("a value outlives the root it came from") {
  const auto inner = [] { return parsed(R"({"a": {"b": ["deep"]}})").at("a").at("b").items()[0]; }();
  CHECK(inner.string() == "deep");
  CHECK(inner.file() == "f.json");
}

TEST_CASE("if there is no memory, reading throws, and values that were read can be destroyed") {
  const std::string text = R"({"a": [{"b": [1, 2, {"a long key of an object": "a string that is long enough"}]}, []], "c": {"d": {}}})";
  std::size_t failures = 0;
  for (bool failed = true; failed; ++failures) {
    failed = false;
    failing = failures + 1;
    failing_from_there = true;
    try {
      parsed(text).find("a");
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    failing = 0;
    failing_from_there = false;
  }
  CHECK(failures > 10);
}

TEST_CASE("errors of getters give the place and the value") {
  CHECK(fault_in(R"({"a": {"b": "two"}})", [](auto r) { r.at("a").at("b").number(); }) == at("f.json: a.b", {"\"two\""}));
  CHECK(fault_in(R"({"a": [1, {}]})", [](auto r) { r.at("a").items()[1].string(); }) == at("f.json: a[1]"));
  CHECK(fault_in(R"({"a": 1})", [](auto r) { r.at("a").boolean(); }) == at("f.json: a", {", found 1"}));
  CHECK(fault_in(R"({"a": 1})", [](auto r) { r.at("b"); }) == at("f.json", {"\"b\""}));
  CHECK(fault_in("[]", [](auto r) { r.at("b"); }) == at("f.json"));
  CHECK(fault_in("3", [](auto r) { r.find("b"); }) == at("f.json", {", found 3"}));
  CHECK(fault_in("{}", [](auto r) { r.items(); }) == at("f.json"));
  CHECK(fault_in(R"({"a\nb": null})", [](auto r) { r.at("a\nb").string(); }) == at("f.json: a\\x0ab"));
}

TEST_CASE("whole numbers have no sign, point or exponent, and lie in the caller's range") {
  const std::string expected = "f.json: n: expected a whole number from 0 to 9223372036854775808, found ";
  for (const std::string bad : {"-1", "1.0", "1e3", "9223372036854775809", "18446744073709551615", "true", "null"}) {
    CAPTURE(bad);
    const std::string text = "{\"n\": " + bad + "}";
    CHECK(fault_in(text, [](auto r) { r.at("n").whole_number(); }).starts_with(expected));
  }
  CHECK(fault_in(R"({"n": 18446744073709551616})", [](auto r) { r.at("n").whole_number(); }).starts_with(expected));
  CHECK(fault_in(R"({"n": 5})", [](auto r) { r.at("n").whole_number(6, 9); }) == at("f.json: n", {", found 5"}));
  CHECK(fault_in(R"({"n": 5})", [](auto r) { r.at("n").whole_number(5, 5); }) == "no error");
}

TEST_CASE("allow_only refuses other keys by name") {
  CHECK(fault_in(R"({"a": 1, "c": [2]})", [](auto r) { r.allow_only({"a", "b"}); }) == at("f.json: c"));
  CHECK(fault_in(R"({"a": 1})", [](auto r) { r.allow_only({"a", "b"}); }) == "no error");
}

TEST_CASE("members and items are given one at a time, with their places") {
  const auto json = json_value::parse(R"({"b": [1, "x"], "a": 2})", "f.json", 100);
  std::string seen;
  json.each_member([&](const std::string& key, const json_value& value) { seen += key + " " + value.place() + "; "; });
  json.at("b").each_item([&](const json_value& value) { seen += value.place() + "; "; });
  CHECK(seen == "a a; b b; b[0]; b[1]; ");
  CHECK(json.size() == 2);
  CHECK(json.at("b").size() == 2);
  CHECK(json.at("a").size() == 0);
  CHECK(error_of([&] { json.each_item([](const json_value&) {}); }) == at("f.json"));
  CHECK(error_of([&] { json.at("a").each_member([](const std::string&, const json_value&) {}); }) == at("f.json: a", {", found 2"}));
}

TEST_CASE("with_defaults adds the members that an object lacks") {
  const auto whole = lazyprune::json_value::parse(R"({"a": {"x": 1, "none": null}})", "f", 100);
  const auto all = whole.at("a").with_defaults(R"({"x": 2, "y": 3, "none": 4})");
  CHECK(all.at("x").whole_number() == 1);
  CHECK(all.at("y").whole_number() == 3);
  CHECK_FALSE(all.find("none"));  // null counts as a value, so the default is not used
  CHECK(all.at("y").place() == "a.y");
}
