// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/normalizer.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <files/support.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::json_value;
using lazyprune::normalizer;
using lazyprune::normalizer_of;

namespace {

normalizer parse(std::string_view text, const lazyprune::unicode* characters = nullptr) {
  return normalizer_of(json_value::parse(text, "t.json", 1000), characters);
}
fault said(std::string_view text) {
  return error_of([&] { parse(text); });
}

}  // namespace

TEST_CASE("steps are applied in order") {
  const normalizer llama = parse(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
                                     {"type": "Replace", "pattern": {"String": " "}, "content": "__"}]})");
  CHECK(llama.apply("a b").text == "_a__b");
  CHECK(llama.apply("").text.empty());
  CHECK(normalizer().apply(" a").text == " a");
  const normalizer strip = parse(R"({"type": "Strip", "strip_left": true, "strip_right": false})");
  CHECK(strip.apply("\xe3\x80\x80\t a ").text == "a ");
  CHECK_FALSE(strip.apply(" a").from_start);
  CHECK(strip.apply("a").from_start);
  CHECK(strip.apply(" \n").text.empty());
}

TEST_CASE("texts are changed to normal forms and to lower case") {
  const auto* const characters = known_unicode();
  if (!characters) return;
  const normalizer all = parse(R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"},
                                   {"type": "Strip", "strip_left": true, "strip_right": true}]})",
                               characters);
  CHECK(all.apply(" \xef\xac\x81 \xe2\x85\xa7  ").text == "fi viii");
  CHECK(parse(R"({"type": "NFC"})", characters).apply("e\xcc\x81").text == "\xc3\xa9");
  CHECK(parse(R"({"type": "NFD"})", characters).apply("\xc3\xa9").text == "e\xcc\x81");
}

TEST_CASE("unknown kinds and options are refused by name, and a text that grows too much is refused") {
  CHECK(said(R"({"type": "Nmt"})") == unsupported("t.json: type", {"\"Nmt\""}));
  CHECK(said(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "a", "append": "b"}]})") ==
        unsupported("t.json: normalizers[0].append", {"\"b\""}));
  CHECK(said(R"({"type": "NFC"})") == unsupported("t.json: type", {"\"NFC\""}));
  CHECK(said(R"({"type": "Strip"})") == at("t.json", {"\"strip_left\""}));
  const normalizer growing = parse(R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(500, 'b') + "\"}");
  CHECK(growing.apply(std::string(8, 'a')).text.size() == 4000);
  CHECK(error_of([&] { growing.apply(std::string(100'000, 'a')); }) == unsupported("tokenizer: replaced text", {"6404096"}));
  const normalizer longer(std::vector<normalizer::step>(12, normalizer::prepend{std::string(400, 'b')}));
  CHECK(error_of([&] { longer.apply("a"); }) == unsupported("tokenizer: normalizer", {"64", "4401"}));
}
