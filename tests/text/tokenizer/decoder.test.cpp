// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/decoder.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include <files/support.hpp>
#include <text/tokenizer/known_unicode.hpp>

using namespace lazyprune_test;
using lazyprune::decoder;
using lazyprune::json_value;
using lazyprune::piece_decoder;

namespace {

decoder parse(std::string_view json, const lazyprune::unicode* characters = nullptr) {
  return decoder_of(json_value::parse(json, "t.json", 1000), characters);
}
std::string decoded(const decoder& how, std::initializer_list<std::string_view> pieces) {
  piece_decoder state(how);
  std::string text;
  for (const std::string_view piece : pieces) {
    text += state.push(piece);
    REQUIRE(lazyprune::utf8_end(text) == text.size());
  }
  return text + state.flush();
}

const std::string fffd = "\xef\xbf\xbd";
const std::string_view llama = R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
                                   {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";

}  // namespace

TEST_CASE("each kind of decoder gives the text that tokenizers 0.23 gives") {
  CHECK(decoded(parse(R"({"type": "Strip", "content": " ", "start": 2, "stop": 1})"), {"   a  ", " b"}) == " a b");
  CHECK(decoded(parse(R"({"type": "Metaspace", "replacement": "_"})"), {"_a_b", "_c"}) == "ab c");
  CHECK(decoded(parse(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"})"), {"_a", "_c"}) == " a c");
  CHECK(decoded(parse(llama), {"_", "_a", "<0xE2>", "<0x82>", "<0xac>", "<0xE2>", "b", "<0xFF>", "<0x41>"}) ==
        " a" + fffd + fffd + fffd + fffd + "b" + fffd + fffd);
  CHECK(decoded(parse(R"({"type": "ByteFallback"})"), {"<0xE2>", "<0x82>", "<0xAC>"}) == "\xe2\x82\xac");
  CHECK(decoded(parse(R"({"type": "ByteFallback"})"), {"<0xE2>", "b", "<0x+F>"}) == fffd + "b<0x+F>");
  CHECK(decoded(parse(R"({"type": "ByteLevel"})"), {"\xc4\xa0"
                                                    "a",
                                                    "\xc3\xa2\xc4\xa4", "\xc2\xac", "\xc3\xa2\xc4\xa4", "x y", "\xc3\x83"}) ==
        " a\xe2\x82\xac" + fffd + "x y" + fffd);
  CHECK(decoded(parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 2, "stop": 2}]})"),
                {"x", "xxa", "x"}) == "xa");
  CHECK(decoded(parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 3, "stop": 0}]})"),
                {"x", "x", "", "ax", "x"}) == "axx");
  CHECK(decoded(decoder{{decoder::join{}}}, {"a", "b", "c"}) == "a b c");
  if (const auto* const characters = known_unicode())
    CHECK(
        decoded(
            parse(
                R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": "ab+"}, "content": "X"}]})",
                characters),
            {"a", "b", "bc"}) == "Xc");
}

TEST_CASE("text is returned as soon as it is final") {
  const decoder bytes = parse(R"({"type": "ByteLevel"})"), pieces = parse(llama);
  piece_decoder first(bytes), second(pieces);
  CHECK(first.push("\xc3\xa2\xc4\xa4").empty());  // two of the three bytes of a character
  CHECK(first.push("\xc2\xac") == "\xe2\x82\xac");
  CHECK(first.push("ab") == "ab");
  CHECK(first.flush().empty());
  CHECK(second.push("_Once") == "Once");
  CHECK(second.push("_upon") == " upon");
  CHECK(second.push("<0x41>").empty());  // the next piece may turn this byte into U+FFFD
  CHECK(second.push("!") == "A!");
}

TEST_CASE("an answer after flush() continues the prompt, so the answer keeps its first space") {
  const auto after = [](const decoder& how, std::initializer_list<std::string_view> prompt,
                        std::initializer_list<std::string_view> answer) {
    piece_decoder state(how);
    for (const std::string_view piece : prompt) state.push(piece);
    state.flush();
    std::string text;
    for (const std::string_view piece : answer) text += state.push(piece);
    return text + state.flush();
  };
  const decoder pieces = parse(llama), bytes = parse(R"({"type": "ByteLevel"})");
  CHECK(after(pieces, {"_hi", "<0x0A>"}, {"_bi"}) == " bi");
  CHECK(after(pieces, {"<0xE4>", "<0xB8>", "<0xAD>"}, {"_bi", "<0x0A>"}) == " bi\n");
  CHECK(after(pieces, {"<0xE4>"}, {"<0xB8>", "_bi"}) == fffd + " bi");
  CHECK(after(pieces, {}, {"_bi"}) == "bi");
  CHECK(after(bytes, {"\xc3\xa2\xc4\xa4"}, {"x"}) == "x");
  CHECK(after(parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 1, "stop": 1}]})"),
              {"xa", "xx"}, {"xb", "c"}) == "bc");
}

TEST_CASE("unknown kinds and options are refused by name") {
  const auto said = [](std::string_view json) { return error_of([&] { parse(json); }); };
  CHECK(said(R"({"type": "CTC"})") == unsupported("t.json: type", {"ByteFallback", "ByteLevel", "\"CTC\""}));
  CHECK(said(R"({"type": "Fuse", "with": "x"})") == unsupported("t.json: with", {"\"x\""}));
  CHECK(said(R"({"type": "Strip", "content": "", "start": 0, "stop": 0})") == at("t.json: content", {"\"\""}));
  CHECK(said(R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})") == at("t.json: start"));
}

TEST_CASE("a text that grows too much is refused") {
  const std::string replace = R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"})";
  const decoder growing =
      parse(R"({"type": "Sequence", "decoders": [)" + replace + "," + replace + "," + replace + "," + replace + "," + replace + "]}");
  CHECK(error_of([&] { decoded(growing, {"a"}); }) == unsupported("tokenizer: replaced text", {"4160"}));
}
