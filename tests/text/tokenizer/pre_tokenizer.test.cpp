// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/pre_tokenizer.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include <files/support.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::json_value;
using lazyprune::pre_tokenizer_of;
using lazyprune::text_piece;

namespace {

/// Returns the words, each followed by a bar. The expected words are those of tokenizers 0.23.
std::string words(std::string_view json, std::string_view text, const lazyprune::unicode* characters = nullptr) {
  std::string all;
  for (const text_piece& piece : pre_tokenizer_of(json_value::parse(json, "t.json", 1000), characters).apply(std::string(text), true))
    all += piece.text + "|";
  return all;
}

std::string metaspace(std::string_view scheme, bool splits, std::string_view text) {
  return words(
      R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": ","}, "behavior": "Isolated", "invert": false},
                   {"type": "Metaspace", "replacement": "_", "prepend_scheme": ")" +
          std::string(scheme) + R"(", "split": )" + (splits ? "true}]}" : "false}]}"),
      text);
}

}  // namespace

TEST_CASE("Metaspace gives the words of tokenizers 0.23") {
  CHECK(metaspace("always", true, " a  b") == "_a|_|_b|");
  CHECK(metaspace("always", false, " a  b") == "_a__b|");
  CHECK(metaspace("always", true, "a,b c") == "_a|_,|_b|_c|");
  CHECK(metaspace("first", true, "a,b c") == "_a|,|b|_c|");
  CHECK(metaspace("first", false, "a,b c") == "_a|,|b_c|");
  CHECK(metaspace("never", true, "a b") == "a|_b|");
  CHECK(metaspace("never", false, " a  b") == "_a__b|");
  CHECK(words(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false, "str_rep": "_"})", "a b") == "a|_b|");
  CHECK(words(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": true})", "a b") == "_a|_b|");
}

TEST_CASE("ByteLevel gives the words of tokenizers 0.23") {
  CHECK(words(R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false})", "a b") ==
        "\xc4\xa0"
        "a\xc4\xa0"
        "b|");
  const auto* const characters = known_unicode();
  if (!characters) return;
  CHECK(words(R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})", "Hello, \xc3\xa9  w'll 12", characters) ==
        "\xc4\xa0Hello|,|\xc4\xa0\xc3\x83\xc2\xa9|\xc4\xa0|\xc4\xa0w|'ll|\xc4\xa0"
        "12|");
}

TEST_CASE("texts are split at digits, punctuation or white space") {
  CHECK(words(R"({"type": "WhitespaceSplit"})",
              "  It's  a\xc2\xa0"
              "b ") == "It's|a|b|");
  const auto* const characters = known_unicode();
  if (!characters) return;
  const std::string digits = "a12b\xd9\xa3\xc2\xb2", marks =
                                                         "a,b!?$c\xe3\x80\x82"
                                                         "d";
  CHECK(words(R"({"type": "Digits", "individual_digits": true})", digits, characters) == "a|1|2|b|\xd9\xa3|\xc2\xb2|");
  CHECK(words(R"({"type": "Digits", "individual_digits": false})", digits, characters) == "a|12|b|\xd9\xa3\xc2\xb2|");
  CHECK(words(R"({"type": "Punctuation"})", marks, characters) == "a|,|b|!|?|$|c|\xe3\x80\x82|d|");
  CHECK(words(R"({"type": "Punctuation", "behavior": "Contiguous"})", marks, characters) == "a|,|b|!?$|c|\xe3\x80\x82|d|");
  CHECK(words(R"({"type": "Whitespace"})", "It's  a\xcc\x81 x_1 !?\xc3\xa9", characters) == "It|'|s|a\xcc\x81|x_1|!?|\xc3\xa9|");
}

TEST_CASE("unknown kinds and options are refused by name") {
  const auto said = [](std::string_view json) { return error_of([&] { words(json, "a"); }); };
  CHECK(said(R"({"type": "UnicodeScripts"})") == unsupported("t.json: type", {"ByteLevel"}));
  CHECK(said(R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Kept", "invert": false})") ==
        at("t.json: behavior", {"MergedWithPrevious", "MergedWithNext", "\"Kept\""}));
  CHECK(said(R"({"type": "Metaspace", "replacement": "__"})") == at("t.json: replacement", {"\"__\""}));
  CHECK(said(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})") == at("t.json: prepend_scheme", {"\"last\""}));
  CHECK(said(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})") ==
        at("t.json: add_prefix_space", {"prepend_scheme"}));
  CHECK(said(R"({"type": "ByteLevel", "add_prefix_space": false})") == unsupported("t.json: type", {"\"ByteLevel\""}));
}

TEST_CASE("a text that grows too much is refused") {
  const auto* const characters = known_unicode();
  if (!characters) return;
  const std::string bytes = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  const std::string twice = bytes + "," + bytes, eight = twice + "," + twice + "," + twice + "," + twice;
  CHECK(error_of([&] { words(R"({"type": "Sequence", "pretokenizers": [)" + eight + "]}", std::string(100, ' '), characters); }) ==
        unsupported("tokenizer: pre-tokenizer", {"64", "12800"}));
}
