// SPDX-License-Identifier: MIT
// Reads a SentencePiece model file (tokenizer.model): the pieces and the settings that BPE needs. The file is a protocol buffer
// (github.com/google/sentencepiece, src/sentencepiece_model.proto). A setting that is not supported is an error that names it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/byte_piece.hpp>

namespace lazyprune {
inline namespace v0 {

/// The type of a piece. The file format has the same numbers.
enum class piece_type : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct sentencepiece {
  std::string text;  // U+2581 stands for a space
  float score = 0;   // BPE merges the pair whose piece has the highest score
  piece_type type = piece_type::normal;
  bool rstrip = false;  // a control piece that is recognised in a text swallows the white space after it
};

struct sentencepiece_model {
  std::vector<sentencepiece> pieces;  // by token id
  bool byte_fallback = false;         // a character without a piece becomes byte pieces; if true, all 256 byte pieces exist
  bool add_dummy_prefix = true;       // puts a space before the text
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  std::string unknown_surface = " \xe2\x81\x87 ";  // the text that the unknown piece decodes to
  std::string bos_piece = "<s>", eos_piece = "</s>";
  token_id unknown = 0;
  std::array<token_id, 256> bytes{};  // the id of each byte's piece; used with byte_fallback
};

namespace detail {

/// Reads the fields of one protocol buffer message, in order. Every length is checked against the bytes that are left.
class wire_reader {
 public:
  wire_reader(std::string_view message, std::string_view file, std::size_t offset = 0) : message_(message), file_(file), offset_(offset) {}

  /// Goes to the next field. Returns false at the end of the message.
  bool next() {
    if (at_ == message_.size()) return false;
    field_at_ = at_;
    const std::uint64_t key = varint();
    number_ = key >> 3;
    kind_ = static_cast<unsigned>(key & 7);
    if (number_ == 0 || number_ >= std::uint64_t{1} << 29) fail("a protocol buffer field", "field number " + std::to_string(number_));
    if (kind_ == 0) {
      value_ = varint();
    } else if (kind_ == 1) {
      bytes_ = take(8);
    } else if (kind_ == 2) {
      bytes_ = take(varint());
    } else if (kind_ == 5) {
      bytes_ = take(4);
    } else {
      fail("a protocol buffer field", "wire type " + std::to_string(kind_));
    }
    return true;
  }

  std::uint64_t number() const { return number_; }
  std::uint64_t value() const {
    need(0);
    return value_;
  }
  bool flag() const { return value() != 0; }
  std::string_view bytes() const {
    need(2);
    return bytes_;
  }
  wire_reader message() const {
    need(2);
    return wire_reader(bytes_, file_, offset_ + at_ - bytes_.size());
  }
  float real() const {
    need(5);
    std::uint32_t bits = 0;
    for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes_[i]);
    return std::bit_cast<float>(bits);
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    throw error(file_, "byte " + std::to_string(offset_ + field_at_), expected, found, code);
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of at most 64 bits", "a longer one");
  }
  std::string_view take(std::uint64_t n) {
    const std::size_t left = message_.size() - at_;
    if (n > left) fail(std::to_string(n) + " bytes more", std::to_string(left));
    const std::string_view taken = message_.substr(at_, static_cast<std::size_t>(n));
    at_ += taken.size();
    return taken;
  }
  void need(unsigned kind) const {
    if (kind_ != kind) fail("wire type " + std::to_string(kind) + " in field " + std::to_string(number_), std::to_string(kind_));
  }

  std::string_view message_;
  std::string_view file_;
  std::size_t offset_;  // where the message begins in the file, for errors
  std::size_t at_ = 0, field_at_ = 0;
  std::uint64_t number_ = 0, value_ = 0;
  unsigned kind_ = 0;
  std::string_view bytes_;
};

inline sentencepiece piece_of(wire_reader message) {
  sentencepiece piece;
  while (message.next()) {
    if (message.number() == 1) {
      constexpr std::size_t most = std::size_t{1} << 16;
      if (message.bytes().size() > most)
        message.fail("a piece of at most " + std::to_string(most) + " bytes", std::to_string(message.bytes().size()));
      if (utf8_end(message.bytes()) != message.bytes().size()) message.fail("a piece in UTF-8", in_quotes(message.bytes()));
      piece.text = message.bytes();
    } else if (message.number() == 2) {
      piece.score = message.real();
      if (!std::isfinite(piece.score)) message.fail("a finite score", std::to_string(piece.score));
    } else if (message.number() == 3) {
      if (message.value() < 1 || message.value() > 6) message.fail("a piece type from 1 to 6", std::to_string(message.value()));
      piece.type = static_cast<piece_type>(message.value());
    }
  }
  if (piece.text.empty()) message.fail("a piece with text", "none");
  return piece;
}

/// Reads TrainerSpec: the kind of model and its special pieces.
inline void read_trainer(wire_reader message, sentencepiece_model& model, std::uint64_t& kind) {
  while (message.next()) switch (message.number()) {
      case 3:
        kind = message.value();
        break;
      case 24:
        if (message.flag()) message.fail("treat_whitespace_as_suffix = false", "true", error_code::unsupported);
        break;
      case 35:
        model.byte_fallback = message.flag();
        break;
      case 44:
        if (utf8_end(message.bytes()) != message.bytes().size()) message.fail("unk_surface in UTF-8", in_quotes(message.bytes()));
        model.unknown_surface = message.bytes();
        break;
      case 46:
        model.bos_piece = message.bytes();
        break;
      case 47:
        model.eos_piece = message.bytes();
        break;
      default:
        break;
    }
}

/// Reads NormalizerSpec: how a text is changed before it is split.
inline void read_normalizer(wire_reader message, sentencepiece_model& model) {
  while (message.next()) switch (message.number()) {
      case 2:
        if (!message.bytes().empty())
          message.fail("no precompiled_charsmap", std::to_string(message.bytes().size()) + " bytes of it", error_code::unsupported);
        break;
      case 3:
        model.add_dummy_prefix = message.flag();
        break;
      case 4:
        model.remove_extra_whitespaces = message.flag();
        break;
      case 5:
        model.escape_whitespaces = message.flag();
        break;
      default:
        break;
    }
}

/// Checks all pieces, and finds the unknown piece and the byte pieces. `unknown` is the id that the file names for unknown characters. Its
/// piece may have any type: in GGUF files of Gemma it is a control piece. Without `unknown`, the one piece of the type `unknown` is used.
inline void check_pieces(sentencepiece_model& model, std::string_view file, std::optional<token_id> unknown = std::nullopt) {
  std::unordered_map<std::string_view, std::size_t> seen;
  std::array<bool, 256> have{};
  const bool named = unknown.has_value();
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const sentencepiece& piece = model.pieces[i];
    const std::string where = "piece " + std::to_string(i);
    const auto id = static_cast<token_id>(i);
    if (const auto [before, fresh] = seen.emplace(piece.text, i); !fresh)
      throw error(file, where, "every piece once",
                  "token " + std::to_string(before->second) + " and token " + std::to_string(i) + " are both " + in_quotes(piece.text));
    if (piece.type == piece_type::unknown && !named) {
      if (unknown) throw error(file, where, "one unknown piece", in_quotes(piece.text) + " as well");
      unknown = id;
    }
    if (piece.type != piece_type::byte) continue;
    const auto byte = byte_of_piece(piece.text, hex_letters::upper);
    if (!byte) throw error(file, where, "a byte piece like <0x1F>", in_quotes(piece.text));
    if (!model.byte_fallback) throw error(file, where, "no byte piece without byte_fallback", in_quotes(piece.text));
    have[*byte] = true;
    model.bytes[*byte] = id;
  }
  if (!unknown) throw error(file, "pieces", "an unknown piece", "none");
  model.unknown = *unknown;
  if (const auto lacking = std::find(have.begin(), have.end(), false); model.byte_fallback && lacking != have.end())
    throw error(file, "pieces", "a piece for every byte", "none for byte " + std::to_string(lacking - have.begin()));
}

}  // namespace detail

/// Parses the bytes of a tokenizer.model. Throws `error` if they are not a SentencePiece model, or if the model is not BPE or has a
/// setting that is not supported.
inline sentencepiece_model parse_sentencepiece_model(std::string_view bytes, std::string_view file) {
  constexpr std::size_t most_pieces = std::size_t{1} << 24;
  sentencepiece_model model;
  std::uint64_t kind = 1;  // unigram, the format's default
  detail::wire_reader message(bytes, file);
  while (message.next()) {
    if (message.number() == 1) {
      if (model.pieces.size() == most_pieces) message.fail("at most " + std::to_string(most_pieces) + " pieces", "more");
      model.pieces.push_back(detail::piece_of(message.message()));
    } else if (message.number() == 2) {
      detail::read_trainer(message.message(), model, kind);
    } else if (message.number() == 3) {
      detail::read_normalizer(message.message(), model);
    } else if (message.number() == 5) {  // a normalizer for decoded text, read only to check that it has no precompiled_charsmap
      sentencepiece_model ignored;
      detail::read_normalizer(message.message(), ignored);
    }
  }
  constexpr std::string_view kinds[] = {"", "unigram", "BPE", "word", "char"};
  if (kind != 2)
    throw error(file, "model_type", "BPE", kind < 5 ? std::string(kinds[kind]) : std::to_string(kind),
                kind < 5 ? error_code::unsupported : error_code::bad_input);
  detail::check_pieces(model, file);
  return model;
}

}  // namespace v0
}  // namespace lazyprune
