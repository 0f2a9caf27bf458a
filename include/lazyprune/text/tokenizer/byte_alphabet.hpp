// SPDX-License-Identifier: MIT
// GPT-2's byte alphabet: a printable character for each of the 256 bytes. Vocabularies of byte-level BPE are written in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

struct byte_alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<std::int16_t, 0x144> of_character{};  // -1: the character stands for no byte

  constexpr byte_alphabet() {
    of_character.fill(-1);
    char32_t next = 0x100;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      of_byte[byte] = printable ? static_cast<char32_t>(byte) : next++;
      of_character[of_byte[byte]] = static_cast<std::int16_t>(byte);
    }
  }
};
inline constexpr byte_alphabet bytes_as_characters;

}  // namespace detail

/// Returns the bytes, each written as its character of the alphabet.
inline std::string in_byte_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) append_utf8(out, detail::bytes_as_characters.of_byte[static_cast<unsigned char>(byte)]);
  return out;
}

/// Returns the bytes that a well-formed text stands for, or nullopt if one of its characters stands for no byte.
inline std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string out;
  for (std::size_t size; !text.empty(); text.remove_prefix(size)) {
    size = utf8_length(text[0]);
    const char32_t code = utf8_code(text.substr(0, size));
    if (code >= detail::bytes_as_characters.of_character.size() || detail::bytes_as_characters.of_character[code] < 0) return std::nullopt;
    out += static_cast<char>(detail::bytes_as_characters.of_character[code]);
  }
  return out;
}

}  // namespace v0
}  // namespace lazyprune
