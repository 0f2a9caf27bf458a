// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/added_tokens.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <files/support.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::added_token;
using lazyprune::added_tokens;
using lazyprune::text_range;

namespace {

/// Cuts the text at the tokens, and returns its stretches, each followed by a bar. A token is written as <id>.
std::string cut(const added_tokens& tokens, std::string_view text, bool normalized = false, bool special = true) {
  std::string all;
  const auto may_be = [&](const added_token& token, text_range) { return special || !token.special; };
  for (const auto& [range, id] : tokens.cut(text, normalized, may_be))
    all += (id ? "<" + std::to_string(*id) + ">" : std::string(text.substr(range.begin, range.end - range.begin))) + "|";
  return all;
}

}  // namespace

TEST_CASE("the longest token at a place is taken; the search continues after it") {
  const added_tokens tokens({{.text = "<a>", .id = 1, .special = true}, {.text = "<a><b>", .id = 2}, {.text = "<b>", .id = 3}}, {},
                            nullptr);
  CHECK(cut(tokens, "x<a><b<a><b>") == "x|<1>|<b|<2>|");
  CHECK(cut(tokens, "<b><a>") == "<3>|<1>|");
  CHECK(cut(tokens, "<b><a>", false, false) == "<3>|<a>|");
  CHECK(cut(tokens, "") == "");
  CHECK(tokens.find(3)->text == "<b>");
  CHECK(tokens.find(4) == nullptr);
}

TEST_CASE("lstrip and rstrip swallow white space beside a token") {
  const added_tokens tokens({{.text = "[l]", .id = 1, .lstrip = true},
                             {.text = "[r]", .id = 2, .rstrip = true},
                             {.text = "[b]", .id = 3, .lstrip = true, .rstrip = true}},
                            {}, nullptr);
  CHECK(cut(tokens, "a \n[l] b") == "a|<1>| b|");
  CHECK(cut(tokens, "a [r] \xe3\x80\x80 b") == "a |<2>|b|");
  CHECK(cut(tokens, "a [r]  [l] b [b] ") == "a |<2>|<1>| b|<3>|");
}

TEST_CASE("a token with normalized = true is found only in normalized text, by its own normalized text") {
  const lazyprune::normalizer normal({lazyprune::normalizer::replace{lazyprune::text_pattern(std::string("-")), "+"}});
  const added_tokens tokens({{.text = "a-b", .id = 1, .normalized = true}, {.text = "c-d", .id = 2}}, normal, nullptr);
  CHECK(cut(tokens, "a-b c-d") == "a-b |<2>|");
  CHECK(cut(tokens, "a+b c+d", true) == "<1>| c+d|");
}

TEST_CASE("each_mark finds the tokens in a text, except special tokens and tokens of white space") {
  const added_tokens tokens({{.text = "<a>", .id = 1, .special = true},
                             {.text = "<b>", .id = 2},
                             {.text = "<b><c>", .id = 3, .normalized = true},
                             {.text = " \n\xe2\x96\x81", .id = 4},
                             {.text = " x", .id = 5}},
                            {}, nullptr);
  const auto marks = [&](std::string_view text) {
    std::vector<lazyprune::token_id> all;
    tokens.each_mark(text, [&](lazyprune::token_id id) { all.push_back(id); });
    return all;
  };
  CHECK(marks("<a> x<b><b><c> \n\xe2\x96\x81") == std::vector<lazyprune::token_id>{5, 2, 2, 3});
  CHECK(marks("<b").empty());
}

TEST_CASE("a token with single_word = true matches only if no word character stands beside it") {
  const auto* const characters = known_unicode();
  if (!characters) return;
  added_tokens first({{.text = "ab", .id = 1, .single_word = true}}, {}, characters);
  const added_tokens tokens = std::move(first);
  CHECK(cut(tokens, "ab, ab xab ab_ -ab- ab\xcc\x81 ab\xc3\xa9") == "<1>|, |<1>| xab ab_ -|<1>|- ab\xcc\x81 ab\xc3\xa9|");
}

TEST_CASE("tokens that cannot be searched for are refused") {
  const lazyprune::normalizer empties({lazyprune::normalizer::replace{lazyprune::text_pattern(std::string("a")), ""}});
  CHECK(error_of([&] { added_tokens({{.text = "a", .normalized = true}}, empties, nullptr); }) == unsupported("", {"512", "\"a\""}));
  CHECK(error_of([&] { added_tokens({{.text = "a", .single_word = true}}, {}, nullptr); }) == unsupported("", {"single_word", "\"a\""}));
  const auto json = lazyprune::json_value::parse(R"([{"id": 1, "content": "a", "single_word": false, "lstrip": false, "rstrip": false,
                                                      "normalized": false, "special": false, "left": true}])",
                                                 "t.json", 1000);
  CHECK(error_of([&] { added_tokens_of(json); }) == unsupported("t.json: [0].left"));
}
