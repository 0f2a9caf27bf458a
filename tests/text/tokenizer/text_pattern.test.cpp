// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/text_pattern.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <files/support.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::delimiter;
using lazyprune::json_value;
using lazyprune::text_cut;
using lazyprune::text_pattern;

namespace {

/// Splits the text at the cuts, and returns the stretches, each followed by a bar.
std::string split(std::string_view text, std::vector<text_cut> cuts, delimiter behaviour) {
  std::string all;
  for (const auto [begin, end] : split_by(std::move(cuts), behaviour)) all.append(text.substr(begin, end - begin)).append("|");
  return all;
}

json_value json(std::string_view text) { return json_value::parse(text, "t.json", 1000); }

}  // namespace

TEST_CASE("each delimiter splits a text as tokenizers 0.23 does") {
  const std::string text = "ab--c-d--";
  const auto by = [&](delimiter behaviour, bool inverted) {
    std::vector<text_cut> cuts = text_pattern(std::string("-")).cuts(text);
    for (text_cut& cut : cuts) cut.match = cut.match != inverted;
    return split(text, cuts, behaviour);
  };
  CHECK(by(delimiter::removed, false) == "ab|c|d|");
  CHECK(by(delimiter::removed, true) == "-|-|-|-|-|");
  CHECK(by(delimiter::isolated, false) == "ab|-|-|c|-|d|-|-|");
  CHECK(by(delimiter::isolated, true) == "ab|-|-|c|-|d|-|-|");
  CHECK(by(delimiter::merged_with_previous, false) == "ab-|-|c-|d-|-|");
  CHECK(by(delimiter::merged_with_previous, true) == "ab|-|-c|-d|-|-|");
  CHECK(by(delimiter::merged_with_next, false) == "ab|-|-c|-d|-|-|");
  CHECK(by(delimiter::merged_with_next, true) == "ab-|-|c-|d-|-|");
  CHECK(by(delimiter::contiguous, false) == "ab|--|c|-|d|--|");
  CHECK(by(delimiter::contiguous, true) == "ab|--|c|-|d|--|");
}

TEST_CASE("a text is cut at each character for which a function returns true") {
  const auto is_b = [](char32_t code) { return code == U'\u00e9'; };
  CHECK(split("a\xc3\xa9\xc3\xa9"
              "c",
              lazyprune::cuts_at("a\xc3\xa9\xc3\xa9"
                                 "c",
                                 is_b),
              delimiter::isolated) == "a|\xc3\xa9|\xc3\xa9|c|");
  CHECK(lazyprune::cuts_at("", is_b).empty());
}

TEST_CASE("a text is cut at a literal, or at an expression that may have empty matches") {
  CHECK(text_pattern(std::string("ab")).replaced("xababy ab", "-") == "x--y -");
  CHECK(text_pattern(std::string("ab")).cuts("").empty());
  const auto* const characters = known_unicode();
  if (!characters) return;
  const text_pattern runs = text_pattern_of(json(R"({"Regex": "x*"})"), characters);
  CHECK(split("axxb", runs.cuts("axxb"), delimiter::isolated) == "a|xx|b|");
  CHECK(split("axxb", runs.cuts("axxb"), delimiter::merged_with_previous) == "axx|b|");
  CHECK(split("axxb", runs.cuts("axxb"), delimiter::removed) == "a|b|");
  CHECK(text_pattern_of(json(R"({"Regex": "a+"})"), characters).replaced("caaat a", "<>") == "c<>t <>");
}

TEST_CASE("errors about malformed and unknown patterns name the place") {
  const auto said = [](std::string_view text) { return error_of([&] { text_pattern_of(json(text), nullptr); }); };
  CHECK(said(R"({"String": ""})") == at("t.json: String", {"\"\""}));
  CHECK(said(R"({"Glob": "*"})") == unsupported("t.json: Glob", {"\"*\""}));
  CHECK(said("{}") == at("t.json"));
  CHECK(said(R"({"Regex": "a"})") == unsupported("t.json: Regex", {"\"a\""}));
  if (const auto* const characters = known_unicode())
    CHECK(error_of([&] { text_pattern_of(json(R"({"Regex": "\\b"})"), characters); }) == unsupported("t.json: Regex", {"\"\\b\""}));
}
