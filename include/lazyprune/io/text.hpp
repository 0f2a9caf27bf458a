// SPDX-License-Identifier: MIT
// UTF-8, and how the bytes of others are shown in an error line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lazyprune {
inline namespace v0 {

/// Bytes that a UTF-8 character with this first byte has; 1 where no character begins with it.
constexpr std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xc0 && byte < 0xe0 ? 2 : 1;
}

/// Bytes of the well-formed UTF-8 character (RFC 3629) that the text begins with; 0 where it begins with none.
constexpr std::size_t utf8_prefix(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t length = utf8_length(text[0]);
  if (length == 1 || length > text.size()) return 0;
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0u) != 0x80u) return 0;
    code = code << 6 | (byte & 0x3fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

/// Where the first byte stands that is not well-formed UTF-8; the size of the text if all are.
constexpr std::size_t utf8_end(std::string_view text) {
  std::size_t at = 0;
  while (const std::size_t length = utf8_prefix(text.substr(at))) at += length;
  return at;
}

/// A name or value from a file, fit for one line of text: control bytes and what is not UTF-8 as \xHH, cut after 60 characters.
inline std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (std::size_t characters = 0; !text.empty(); ++characters) {
    if (characters == 60) return out + "...";
    const std::size_t length = utf8_prefix(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7f)
      out.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    else
      out.append(text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

inline std::string in_quotes(std::string_view text) { return '"' + printable(text) + '"'; }

}  // namespace v0
}  // namespace lazyprune
