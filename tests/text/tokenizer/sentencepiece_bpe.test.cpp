// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/sentencepiece_bpe.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <files/support.hpp>
#include <test_data.hpp>
#include <text/sentencepiece_writer.hpp>

#if LAZYPRUNE_HAVE_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

using namespace lazyprune_test;
using lazyprune::parse_sentencepiece_model;
using lazyprune::piece_type;
using lazyprune::token_id;

namespace {

using ids = std::vector<token_id>;
using tokenizer = lazyprune::sentencepiece_bpe;
using token_decoder = lazyprune::sentencepiece_decoder;

tokenizer tokenizer_of(std::string_view bytes) { return tokenizer(parse_sentencepiece_model(bytes, "t.model")); }

std::string streamed(const tokenizer& tokens, const ids& all) {
  token_decoder decoder(tokens);
  std::string text;
  for (const token_id id : all) {
    const std::string part = decoder.push(id);
    REQUIRE(lazyprune::utf8_end(part) == part.size());  // whole characters only
    text += part;
  }
  return text + decoder.flush();
}

/// Merges by the definition: always the pair with the best score, and among equals the leftmost. The model must have no user-defined or
/// unused pieces.
ids by_definition(const tokenizer& tokens, const std::string& text) {
  std::map<std::string, token_id> known;
  for (token_id id = 0; id < tokens.size(); ++id)
    if (tokens.piece(id).type == piece_type::normal) known[tokens.piece(id).text] = id;
  std::vector<std::string> parts;
  for (const char c : " " + text) parts.push_back(c == ' ' ? "\xe2\x96\x81" : std::string(1, c));
  if (text.empty()) parts.clear();
  for (;;) {
    std::size_t best = parts.size();
    float score = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto at = known.find(parts[i] + parts[i + 1]);
      if (at == known.end() || (best < parts.size() && tokens.piece(at->second).score <= score)) continue;
      best = i;
      score = tokens.piece(at->second).score;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  ids out;
  for (const std::string& part : parts) out.push_back(known.contains(part) ? known[part] : tokens.unknown());
  return out;
}

/// Makes random texts of words, runs of spaces, all planes of Unicode, broken UTF-8, and pieces of the model.
class text_source {
 public:
  text_source(const tokenizer& tokens, unsigned seed) : tokens_(tokens), random_(seed) {}

  std::string next() {
    std::string text;
    for (std::size_t parts = random_() % 12; parts > 0; --parts) switch (random_() % 10) {
        case 0:
          text += static_cast<char>(random_());
          break;
        case 1:
          text += std::string(1 + random_() % 4, ' ');
          break;
        case 2:
          append_character(text, static_cast<std::uint32_t>(random_() % 0x110000));
          break;
        case 3:
          append_character(text, static_cast<std::uint32_t>(0x4e00 + random_() % 0x5000));
          break;
        case 4:
          text += words_[random_() % std::size(words_)];
          break;
        case 5:
          text += static_cast<char>('a' + random_() % 26);
          break;
        case 6:
          text += text.substr(random_() % (text.size() + 1));
          break;
        case 7:
          text += "\xe2\x96\x81";
          break;
        default:
          text += tokens_.piece(static_cast<token_id>(random_() % tokens_.size())).text;
      }
    return text;
  }
  ids next_ids() {
    ids out;
    for (std::size_t n = random_() % 12; n > 0; --n) {
      const bool special = random_() % 3 == 0;  // the first pieces are the special ones and the bytes
      out.push_back(static_cast<token_id>(random_() % (special ? std::min<std::size_t>(260, tokens_.size()) : tokens_.size())));
    }
    return out;
  }

 private:
  static constexpr std::string_view words_[] = {
      "the", "Hello", "world", "<s>", "</s>", "<unk>", "<0x41>", "\n", "\t", "1234", "\xc3\xa9", "\xf0\x9f\x98\x80", "\xe2\x80\x8d"};

  /// Appends the bytes of this code point. Surrogates are encoded as well, and give broken UTF-8.
  static void append_character(std::string& text, std::uint32_t code) {
    const auto put = [&](std::initializer_list<std::uint32_t> bytes) {
      for (const std::uint32_t byte : bytes) text += static_cast<char>(byte);
    };
    if (code < 0x80) {
      put({code});
    } else if (code < 0x800) {
      put({0xc0 | code >> 6, 0x80 | (code & 63)});
    } else if (code < 0x10000) {
      put({0xe0 | code >> 12, 0x80 | (code >> 6 & 63), 0x80 | (code & 63)});
    } else {
      put({0xf0 | code >> 18, 0x80 | (code >> 12 & 63), 0x80 | (code >> 6 & 63), 0x80 | (code & 63)});
    }
  }

  const tokenizer& tokens_;
  std::mt19937 random_;
};

/// Returns a small model with user-defined pieces. One piece is a prefix of another. If `unused` is true, it also has unused pieces.
/// Without libsentencepiece, nothing calls this function or small_text.
[[maybe_unused]] std::string small_model(bool byte_fallback, bool dummy_prefix, bool trim, bool escape, bool unused) {
  std::string model = special_pieces();
  if (byte_fallback) model += byte_pieces();
  const std::string space = escape ? "\xe2\x96\x81" : " ";
  float score = 0;
  for (const std::string text : {"ab", "bc", "abc", "aa", "aaaa", "ca", "cab"}) model += piece_field(text, score -= 1);
  model += piece_field("ba", -1) + piece_field("cc", -1);  // equal scores
  model += piece_field(space + "a", -2) + piece_field(space + space, -3) + piece_field("b" + space, -2.5f);
  if (unused)
    for (const std::string text : {"bcab", "aab", "bb"})
      model += piece_field(text, -0.1f * static_cast<float>(text.size()), piece_type::unused);
  model += piece_field("xy", 0, piece_type::user_defined) + piece_field("xyz", 0, piece_type::user_defined) +
           piece_field("x y", 0, piece_type::user_defined) + piece_field("a" + space + "x", 0, piece_type::user_defined) +
           piece_field("<s>x", 0, piece_type::user_defined) + piece_field("\xc3\xa9", 0, piece_type::user_defined);
  for (const std::string letter : {"a", "b", "c", "x", "y"}) model += piece_field(letter, -20);
  model += piece_field(space, -20);
  return model + trainer_field(byte_fallback) + normalizer_field(dummy_prefix, trim, escape);
}

[[maybe_unused]] std::string small_text(std::mt19937& random) {
  std::string text;
  const std::string letters[] = {"a", "b", "c", "x", "y", "z", " ", " ", "\xc3\xa9", "q", "<s>", "\xe2\x96\x81", "\xff"};
  for (std::size_t n = random() % 20; n > 0; --n) text += letters[random() % std::size(letters)];
  return text;
}

}  // namespace

TEST_CASE("the bundled tokenizer encodes words, spaces and bytes") {
  const tokenizer tokens = tokenizer_of(read_text(pocket_model() / "tokenizer.model"));
  CHECK(tokens.size() == 2304);
  CHECK(tokens.bos() == 1u);
  CHECK(tokens.eos() == 2u);
  CHECK(tokens.unknown() == 0u);
  CHECK(tokens.adds_bos());
  CHECK(tokens.encode("") == ids{1});
  CHECK(tokens.encode("", false).empty());
  CHECK(tokens.encode("the", true).front() == 1u);
  CHECK(tokens.encode("the").size() == tokens.encode("the", false).size() + 1);
  for (const std::string& text :
       std::vector<std::string>{"The quick brown fox", "  two  spaces ", "h\xc3\xa9llo \xf0\x9f\x98\x80", "a\nb\tc", {"z\0z", 3}})
    CHECK(tokens.decode(tokens.encode(text)) == text);
  for (const token_id id : tokens.encode("<s></s><unk>", false)) CHECK(tokens.piece(id).type != piece_type::control);
  CHECK(tokens.decode(tokens.encode("\xff", false)) == "\xef\xbf\xbd");
  CHECK(error_of([&] { tokens.piece(2304); }) == at("tokenizer: token 2304", {"2304"}));
  CHECK(error_of([&] { tokens.decode(ids{5, 4'000'000'000u}); }) == at("tokenizer: token 4000000000", {"2304"}));
}

TEST_CASE("a model without control pieces refuses to add BOS") {
  const tokenizer tokens = tokenizer_of(piece_field("<unk>", 0, piece_type::unknown) + piece_field("a", 0) + trainer_field(false));
  CHECK_FALSE(tokens.bos().has_value());
  CHECK_FALSE(tokens.eos().has_value());
  CHECK_FALSE(tokens.adds_bos());
  CHECK(tokens.encode("a").size() == 2);
  CHECK(error_of([&] { tokens.encode("a", true); }) == at("tokenizer"));
}

TEST_CASE("a tokenizer can be moved") {
  tokenizer first = tokenizer_of(read_text(pocket_model() / "tokenizer.model"));
  const ids expected = first.encode("some words");
  tokenizer second = std::move(first);
  CHECK(second.encode("some words") == expected);
  first = std::move(second);
  CHECK(first.encode("some words") == expected);
}

TEST_CASE("the pair with the best score is merged first, and the leftmost among equals") {
  std::string bytes = special_pieces();
  for (const std::string letter : {"a", "b", "c", "\xe2\x96\x81"}) bytes += piece_field(letter, -100);
  std::mt19937 random(1);
  std::map<std::string, bool> seen;
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (std::size_t n = 2 + random() % 4; n > 0; --n) text += std::string(1, static_cast<char>('a' + random() % 3));
    if (random() % 4 == 0) text = "\xe2\x96\x81" + text;
    if (!std::exchange(seen[text], true)) bytes += piece_field(text, -static_cast<float>(random() % 8));  // few scores make many ties
  }
  const tokenizer tokens = tokenizer_of(bytes + trainer_field(false) + normalizer_field(true, false));
  for (int run = 0; run < 3'000 / one_in(5); ++run) {
    std::string text;
    for (std::size_t n = random() % 24; n > 0; --n) text += " abc"[random() % 4];
    CAPTURE(text);
    REQUIRE(tokens.encode(text, false) == by_definition(tokens, text));
  }
}

TEST_CASE("streaming gives the same text as decoding at once, in whole characters") {
  const tokenizer tokens = tokenizer_of(read_text(pocket_model() / "tokenizer.model"));
  text_source source(tokens, 7);
  for (int run = 0; run < 5'000 / one_in(10); ++run) {
    const ids all = source.next_ids();
    REQUIRE(streamed(tokens, all) == tokens.decode(all));
  }
  // The bytes of a character are held back until it is complete or cannot be completed.
  token_decoder decoder(tokens);
  const auto byte = [&](unsigned value) { return decoder.push(tokens.model().bytes[value]); };
  CHECK(byte(0xe2) == "");
  CHECK(byte(0x82) == "");
  CHECK(byte(0xac) == "\xe2\x82\xac");
  CHECK(byte(0xf0) == "");
  CHECK(byte(0x9f) == "");
  CHECK(decoder.push(*tokens.eos()) == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(byte(0xff) == "\xef\xbf\xbd");
  CHECK(byte(0xc3) == "");
  CHECK(decoder.flush() == "\xef\xbf\xbd");
  CHECK(decoder.flush() == "");
}

TEST_CASE("text after a prompt keeps its first space") {
  const tokenizer tokens = tokenizer_of(read_text(pocket_model() / "tokenizer.model"));
  const ids prompt = tokens.encode("the", true), more = tokens.encode("world", false);
  token_decoder decoder(tokens);
  std::string text;
  for (const token_id id : prompt) text += decoder.push(id);
  CHECK(text == "the");
  for (const token_id id : more) text += decoder.push(id);
  CHECK(text == "the world");
}

TEST_CASE("long texts and deeply nested unused pieces are encoded") {
  const tokenizer tokens = tokenizer_of(read_text(pocket_model() / "tokenizer.model"));
  for (const std::string part : {"a", " ", "the ", "\xff", "\xf0\x9f\x98\x80"}) {
    std::string text;
    while (text.size() < 300'000) text += part;
    const ids all = tokens.encode(text, false);
    if (part != "\xff") CHECK(tokens.decode(all) == text);
  }
  // Unused pieces can consist of unused pieces. Here they are nested 3,000 levels deep.
  std::string model = special_pieces() + piece_field("a", -1e6f), piece = "a";
  for (int i = 0; i < 3'000; ++i) {
    piece += 'a';
    model += piece_field(piece, -static_cast<float>(i), piece_type::unused);
  }
  const tokenizer deep = tokenizer_of(model + trainer_field(false) + normalizer_field(false, false));
  CHECK(deep.encode(std::string(3'001, 'a'), false).size() == 3'001);
}

TEST_CASE("published texts have the ids that llama.cpp publishes" NEEDS("data")) {
  const auto model = test_data("tokenizers/llama2/tokenizer.model");
  if (model.empty()) return;
  const tokenizer tokens = tokenizer_of(read_text(model));
  const std::string inputs = read_text(test_data("tokenizers/ggml-vocab-llama-spm.gguf.inp"));
  std::istringstream outputs(read_text(test_data("tokenizers/ggml-vocab-llama-spm.gguf.out")));
  const std::string_view separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::size_t at = 0; at != inputs.npos; ++count) {
    const std::size_t end = inputs.find(separator, at);
    const std::string text = inputs.substr(at, end == inputs.npos ? end : end - at);
    std::string line;
    if (end == inputs.npos) break;  // the bytes after the last separator are no text
    REQUIRE(std::getline(outputs, line));
    std::istringstream numbers(line);
    ids expected;
    for (token_id id; numbers >> id;) expected.push_back(id);
    CAPTURE(text);
    CHECK(tokens.encode(text, false) == expected);
    at = end + separator.size();
  }
  CHECK(count == 46);
}

#if LAZYPRUNE_HAVE_SENTENCEPIECE

namespace {

/// The reference for the tests: Debian's libsentencepiece.
class oracle {
 public:
  explicit oracle(const std::string& bytes) { REQUIRE(processor_.LoadFromSerializedProto(bytes).ok()); }

  ids encode(const std::string& text) const {
    std::vector<int> out;
    REQUIRE(processor_.Encode(text, &out).ok());
    return {out.begin(), out.end()};
  }
  std::string decode(const ids& all) const {
    std::string text;
    REQUIRE(processor_.Decode(std::vector<int>(all.begin(), all.end()), &text).ok());
    return text;
  }
  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

void compare(const std::string& bytes, int runs) {
  const tokenizer ours = tokenizer_of(bytes);
  const oracle theirs(bytes);
  CHECK(static_cast<int>(ours.size()) == theirs.processor().GetPieceSize());
  CHECK(static_cast<int>(ours.bos().value_or(static_cast<token_id>(-1))) == theirs.processor().bos_id());
  CHECK(static_cast<int>(ours.eos().value_or(static_cast<token_id>(-1))) == theirs.processor().eos_id());
  CHECK(static_cast<int>(ours.unknown()) == theirs.processor().unk_id());
  text_source source(ours, 1);
  for (int run = 0; run < runs / one_in(10); ++run) {
    const std::string text = source.next();
    CAPTURE(text);
    const ids expected = theirs.encode(text);
    REQUIRE(ours.encode(text, false) == expected);
    REQUIRE(ours.decode(expected) == theirs.decode(expected));
    const ids any = source.next_ids();
    REQUIRE(ours.decode(any) == theirs.decode(any));
  }
}

}  // namespace

TEST_CASE("libsentencepiece agrees on the bundled tokenizer") { compare(read_text(pocket_model() / "tokenizer.model"), 20'000); }

TEST_CASE("libsentencepiece agrees on Llama 2" NEEDS("data")) {
  const auto path = test_data("tokenizers/llama2/tokenizer.model");
  if (path.empty()) return;
  const std::string bytes = read_text(path);
  compare(bytes, 20'000);
  const tokenizer ours = tokenizer_of(bytes);
  const oracle theirs(bytes);
  const std::string novel = read_text(test_data("tokenizers/botchan.txt"));
  const ids expected = theirs.encode(novel);
  CHECK(expected.size() > 50'000);
  CHECK(ours.encode(novel, false) == expected);
  CHECK(ours.decode(expected) == theirs.decode(expected));
  CHECK(ours.decode(expected) == novel);
}

TEST_CASE("libsentencepiece agrees for every setting of the normalizer, with user-defined and unused pieces") {
  for (int setting = 0; setting < 32; ++setting) {
    CAPTURE(setting);
    const std::string bytes = small_model(setting & 1, setting & 2, setting & 4, setting & 8, setting & 16);
    compare(bytes, 500);
    const tokenizer ours = tokenizer_of(bytes);
    const oracle theirs(bytes);
    std::mt19937 random(3);
    for (int run = 0; run < 2'000 / one_in(10); ++run) {
      const std::string text = small_text(random);
      CAPTURE(text);
      const ids expected = theirs.encode(text);
      REQUIRE(ours.encode(text, false) == expected);
      REQUIRE(ours.decode(expected) == theirs.decode(expected));
    }
  }
}

#endif
