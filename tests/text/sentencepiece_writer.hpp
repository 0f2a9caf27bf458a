// SPDX-License-Identifier: MIT
// Writes SentencePiece model files field by field. Tests write malformed files with it, too.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/text/sentencepiece_model.hpp>

namespace lazyprune_test {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string number_field(std::uint64_t field, std::uint64_t value) { return varint(field << 3) + varint(value); }
inline std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string float_field(std::uint64_t field, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return varint(field << 3 | 5) + bytes;
}

inline std::string piece_field(std::string_view text, float score, lazyprune::piece_type type = lazyprune::piece_type::normal) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, static_cast<std::uint64_t>(type)));
}

/// Returns the fields of the pieces <unk>, <s> and </s>.
inline std::string special_pieces() {
  using lazyprune::piece_type;
  return piece_field("<unk>", 0, piece_type::unknown) + piece_field("<s>", 0, piece_type::control) +
         piece_field("</s>", 0, piece_type::control);
}
inline std::string byte_pieces() {
  std::string all;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char* const digits = "0123456789ABCDEF";
    all += piece_field(std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", 0, lazyprune::piece_type::byte);
  }
  return all;
}

/// Returns the settings of a BPE model. As in every protocol buffer, a later field overrides an earlier one.
inline std::string trainer_field(bool byte_fallback) { return bytes_field(2, number_field(3, 2) + number_field(35, byte_fallback)); }
inline std::string normalizer_field(bool dummy_prefix, bool trim, bool escape = true) {
  return bytes_field(3, number_field(3, dummy_prefix) + number_field(4, trim) + number_field(5, escape));
}

}  // namespace lazyprune_test
