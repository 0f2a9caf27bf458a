// SPDX-License-Identifier: MIT
#include <lazyprune/text/sentencepiece_model.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <files/support.hpp>
#include <test_data.hpp>
#include <text/sentencepiece_writer.hpp>

using namespace lazyprune_test;
using lazyprune::byte_of_piece;
using lazyprune::hex_letters;
using lazyprune::parse_sentencepiece_model;
using lazyprune::piece_type;
using lazyprune::sentencepiece_model;

namespace {

fault model_fault(std::string_view bytes) {
  return error_of([&] { parse_sentencepiece_model(bytes, "t.model"); });
}

}  // namespace

TEST_CASE("the bundled tokenizer is read") {
  const std::string bytes = read_text(pocket_model() / "tokenizer.model");
  const sentencepiece_model model = parse_sentencepiece_model(bytes, "t.model");
  REQUIRE(model.pieces.size() == 2304);
  CHECK(model.pieces[0].text == "<unk>");
  CHECK(model.pieces[0].type == piece_type::unknown);
  CHECK(model.pieces[1].text == "<s>");
  CHECK(model.pieces[1].type == piece_type::control);
  CHECK(std::ranges::count(model.pieces, piece_type::byte, &lazyprune::sentencepiece::type) == 256);
  CHECK(model.byte_fallback);
  CHECK(model.add_dummy_prefix);
  CHECK_FALSE(model.remove_extra_whitespaces);
  CHECK(model.escape_whitespaces);
  CHECK(model.unknown == 0);
  for (unsigned byte = 0; byte < 256; ++byte) CHECK(byte_of_piece(model.pieces[model.bytes[byte]].text, hex_letters::upper) == byte);
}

TEST_CASE("missing fields have the format's defaults") {
  const sentencepiece_model model =
      parse_sentencepiece_model(special_pieces() + bytes_field(2, number_field(3, 2)) + bytes_field(1, bytes_field(1, "a")), "t.model");
  CHECK_FALSE(model.byte_fallback);
  CHECK(model.add_dummy_prefix);
  CHECK(model.remove_extra_whitespaces);
  CHECK(model.escape_whitespaces);
  CHECK(model.bos_piece == "<s>");
  CHECK(model.unknown_surface == " \xe2\x81\x87 ");
  CHECK(model.pieces.back().type == piece_type::normal);
  CHECK(model.pieces.back().score == 0.0f);
}

TEST_CASE("unknown fields are skipped, and the last value of a field counts") {
  const std::string unknown = number_field(99, 7) + bytes_field(200, "new") + float_field(201, 1.5f) + varint(202u << 3 | 1) + "12345678";
  const std::string piece = bytes_field(1, bytes_field(1, "old") + bytes_field(1, "a") + unknown + float_field(2, -3.0f));
  const auto model =
      parse_sentencepiece_model(unknown + special_pieces() + piece + trainer_field(true) + trainer_field(false) + unknown, "t.model");
  CHECK_FALSE(model.byte_fallback);
  CHECK(model.pieces.back().text == "a");
  CHECK(model.pieces.back().score == -3.0f);
}

TEST_CASE("a piece may hold a zero byte") {
  const auto model = parse_sentencepiece_model(special_pieces() + piece_field(std::string("a\0b", 3), 0) + trainer_field(false), "t.model");
  CHECK(model.pieces.back().text == std::string("a\0b", 3));
}

TEST_CASE("settings that are not supported are refused by name") {
  const auto with_kind = [](std::uint64_t kind) { return special_pieces() + bytes_field(2, number_field(3, kind)); };
  CHECK(model_fault(with_kind(1)) == unsupported("t.model: model_type"));
  CHECK(model_fault(with_kind(3)) == unsupported("t.model: model_type"));
  CHECK(model_fault(with_kind(4)) == unsupported("t.model: model_type"));
  CHECK(model_fault(with_kind(77)) == at("t.model: model_type", {", found 77"}));
  CHECK(model_fault(special_pieces()) == unsupported("t.model: model_type"));
  CHECK(model_fault("") == unsupported("t.model: model_type"));
  const std::string good = special_pieces() + trainer_field(false);
  CHECK(model_fault(good) == "no error");
  CHECK(model_fault(good + bytes_field(3, bytes_field(2, ""))) == "no error");
  CHECK(model_fault(good + bytes_field(3, bytes_field(2, "map"))).ends_with(": expected no precompiled_charsmap, found 3 bytes of it"));
  CHECK(model_fault(good + bytes_field(5, bytes_field(2, "map"))).ends_with(": expected no precompiled_charsmap, found 3 bytes of it"));
  CHECK(model_fault(good + bytes_field(2, number_field(24, 1))).ends_with(": expected treat_whitespace_as_suffix = false, found true"));
  for (const std::string& fields : {bytes_field(3, bytes_field(2, "map")), bytes_field(2, number_field(24, 1)),
                                    bytes_field(2, number_field(3, 1))})  // a charsmap, spaces after words, unigram
    CHECK(code_of([&] { lazyprune::parse_sentencepiece_model(good + fields, "m"); }) == lazyprune::error_code::unsupported);
  CHECK(code_of([&] { lazyprune::parse_sentencepiece_model(good + bytes_field(2, number_field(3, 9)), "m"); }) ==
        lazyprune::error_code::bad_input);
}

TEST_CASE("the error about a real charsmap names it, and the error about a .model file of tiktoken names a byte" NEEDS("data")) {
  if (const auto genuine = test_data("tokenizers/test_model.model"); !genuine.empty())  // unigram
    CHECK(model_fault(read_text(genuine)).ends_with(": expected no precompiled_charsmap, found 237484 bytes of it"));
  if (const auto other = test_data("tokenizers/llama3/test_tiktoken_tokenizer.model"); !other.empty())
    CHECK(model_fault(read_text(other)).starts_with("t.model: byte "));
}

TEST_CASE("malformed files are refused, and the error says where and why") {
  const std::string good = special_pieces() + trainer_field(false), at = std::to_string(good.size());
  struct bad {
    std::string bytes, error;
  };
  const bad all[] = {
      // The wire format.
      {good + "\x0a", "t.model: byte " + at + ": expected 1 bytes more, found 0"},
      {good + "\x0a\x05"
              "ab",
       "t.model: byte " + at + ": expected 5 bytes more, found 2"},
      {good + varint(1u << 3 | 2) + varint(~std::uint64_t{0}),
       "t.model: byte " + at + ": expected 18446744073709551615 bytes more, found 0"},
      {good + varint(9u << 3 | 1) + "1234567", "t.model: byte " + at + ": expected 8 bytes more, found 7"},
      {good + varint(9u << 3 | 5) + "123", "t.model: byte " + at + ": expected 4 bytes more, found 3"},
      {good + varint(9u << 3 | 3), "t.model: byte " + at + ": expected a protocol buffer field, found wire type 3"},
      {good + varint(9u << 3 | 4), "t.model: byte " + at + ": expected a protocol buffer field, found wire type 4"},
      {good + varint(9u << 3 | 7), "t.model: byte " + at + ": expected a protocol buffer field, found wire type 7"},
      {good + varint(0u << 3), "t.model: byte " + at + ": expected a protocol buffer field, found field number 0"},
      {good + varint(std::uint64_t{1} << 32), "t.model: byte " + at + ": expected a protocol buffer field, found field number 536870912"},
      {good + std::string(10, '\xff') + "\x01", "t.model: byte " + at + ": expected a number of at most 64 bits, found a longer one"},
      {good + std::string(9, '\xff') + "\x02", "t.model: byte " + at + ": expected a number of at most 64 bits, found a longer one"},
      {good + number_field(1, 5), "t.model: byte " + at + ": expected wire type 2 in field 1, found 0"},
      {good + bytes_field(2, float_field(3, 1)),
       "t.model: byte " + std::to_string(good.size() + 2) + ": expected wire type 0 in field 3, found 5"},
      {good + bytes_field(1, bytes_field(1, "x") + number_field(2, 1)),
       "t.model: byte " + std::to_string(good.size() + 5) + ": expected wire type 5 in field 2, found 0"},
      {good + bytes_field(2, bytes_field(44, "\xff")), ": expected unk_surface in UTF-8, found \"\\xff\""},
      // Pieces.
      {good + bytes_field(1, ""), "t.model: byte " + std::to_string(good.size() + 2) + ": expected a piece with text, found none"},
      {good + piece_field("", 0), ": expected a piece with text, found none"},
      {good + piece_field("a\xff", 0), ": expected a piece in UTF-8, found \"a\\xff\""},
      {good + piece_field(std::string(65'537, 'a'), 0), ": expected a piece of at most 65536 bytes, found 65537"},
      {good + piece_field("a", std::numeric_limits<float>::quiet_NaN()), ": expected a finite score, found nan"},
      {good + piece_field("a", std::numeric_limits<float>::infinity()), ": expected a finite score, found inf"},
      {good + piece_field("a", 0, static_cast<piece_type>(0)), ": expected a piece type from 1 to 6, found 0"},
      {good + piece_field("a", 0, static_cast<piece_type>(7)), ": expected a piece type from 1 to 6, found 7"},
      {good + piece_field("a", 0) + piece_field("a", 0),
       "t.model: piece 4: expected every piece once, found token 3 and token 4 are both \"a\""},
      {good + piece_field("<s>", 0), "t.model: piece 3: expected every piece once, found token 1 and token 3 are both \"<s>\""},
      {good + piece_field("other", 0, piece_type::unknown), "t.model: piece 3: expected one unknown piece, found \"other\" as well"},
      {piece_field("a", 0) + trainer_field(false), "t.model: pieces: expected an unknown piece, found none"},
      {good + piece_field("<0x41>", 0, piece_type::byte),
       "t.model: piece 3: expected no byte piece without byte_fallback, found \"<0x41>\""},
      {good + piece_field("<0x-1>", 0, piece_type::byte) + trainer_field(true),
       "t.model: piece 3: expected a byte piece like <0x1F>, found \"<0x-1>\""},
      {good + trainer_field(true), "t.model: pieces: expected a piece for every byte, found none for byte 0"},
  };
  for (const bad& b : all) {
    CAPTURE(b.error);
    const std::string result = model_fault(b.bytes);
    CAPTURE(result);
    CHECK((b.error.starts_with("t.model") ? result == b.error : result.starts_with("t.model: byte ") && result.ends_with(b.error)));
  }
  CHECK(model_fault(good + byte_pieces() + trainer_field(true)) == "no error");
  CHECK(model_fault(good + piece_field(std::string(65'536, 'a'), 0)) == "no error");
}

TEST_CASE("a real model that is cut or has flipped bits gives an error or a valid model") {
  const std::string whole = read_text(pocket_model() / "tokenizer.model");
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 500)
    REQUIRE(model_fault(std::string_view(whole).substr(0, size)) != "no error");
  std::mt19937 random(1);
  std::size_t accepted = 0;
  for (int run = 0; run < 1'000 / one_in(5); ++run) {
    std::string bytes = whole;
    for (std::size_t flips = 1 + random() % 2; flips > 0; --flips) {
      const std::size_t at = random() % bytes.size();
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    }
    sentencepiece_model model;
    if (error_of([&] { model = parse_sentencepiece_model(bytes, "t.model"); }) != "no error") continue;
    ++accepted;
    REQUIRE(model.pieces.at(model.unknown).type == piece_type::unknown);
    for (const auto& piece : model.pieces) REQUIRE((!piece.text.empty() && std::isfinite(piece.score)));
    for (const auto id : model.bytes) REQUIRE((!model.byte_fallback || model.pieces.at(id).type == piece_type::byte));
  }
  CHECK(accepted > 0);  // some flipped bits change no more than a score or a letter
}
