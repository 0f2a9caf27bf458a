// SPDX-License-Identifier: MIT
// Pieces of a vocabulary that stand for one byte: "<0x1F>".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lazyprune {
inline namespace v0 {

/// The case of the letters in a byte piece's hexadecimal digits. SentencePiece accepts only upper case. The decoders of tokenizer.json
/// accept both cases.
enum class hex_letters : std::uint8_t { upper, both };

/// Returns the byte that a piece stands for, or nullopt if it is not a byte piece.
constexpr std::optional<std::uint8_t> byte_of_piece(std::string_view piece, hex_letters letters) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : piece.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9', lower = letters == hex_letters::both && c >= 'a' && c <= 'f';
    if (!digit && !lower && !(c >= 'A' && c <= 'F')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit ? c - '0' : c - (lower ? 'a' : 'A') + 10);
  }
  return static_cast<std::uint8_t>(value);
}

}  // namespace v0
}  // namespace lazyprune
