// SPDX-License-Identifier: MIT
// Functions for UTF-8, and for showing bytes from files in errors of one line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lazyprune {
inline namespace v0 {

/// Returns a text in UTF-8 without the byte order mark with which some programs begin it.
constexpr std::string_view without_utf8_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

/// Returns how many bytes a UTF-8 character has, by the leading bits of its first byte. Returns 1 if these bits are not those of a first
/// byte. Looks only at the bits: 0xC0 gives 2 and 0xF5 gives 4, although no well-formed character begins with these bytes.
constexpr std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xc0 && byte < 0xe0 ? 2 : 1;
}

/// Returns the size in bytes of the well-formed UTF-8 character (RFC 3629) at the start of the text, or 0 if there is none.
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

/// Returns the index of the first byte that is not well-formed UTF-8, or the size of the text if there is none.
constexpr std::size_t utf8_end(std::string_view text) {
  std::size_t at = 0;
  while (const std::size_t length = utf8_prefix(text.substr(at))) at += length;
  return at;
}

/// Returns the code point of a well-formed character.
constexpr char32_t utf8_code(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]);
  char32_t code = static_cast<unsigned char>(character[0]) & (0x7fu >> character.size());
  for (const char byte : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(byte) & 0x3fu);
  return code;
}

/// Appends a code point below U+110000 to the text.
inline void append_utf8(std::string& text, char32_t code) {
  const auto tail = [&](unsigned shift) { text += static_cast<char>(0x80u | (code >> shift & 0x3fu)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0u | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0u | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0u | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

struct utf8_character {
  std::uint32_t code;
  std::size_t size;  // bytes
};

/// Returns the first character of a non-empty text. A byte that is not UTF-8 counts as one character, U+FFFD.
constexpr utf8_character first_character(std::string_view text) {
  const std::size_t size = utf8_prefix(text);
  if (size == 0) return {0xfffd, 1};
  return {utf8_code(text.substr(0, size)), size};
}

/// Returns the last character of a non-empty text. A byte that is not UTF-8 counts as one character, U+FFFD.
constexpr utf8_character last_character(std::string_view text) {
  std::size_t back = 1;
  while (back < 4 && back < text.size() && (static_cast<unsigned char>(text[text.size() - back]) & 0xc0u) == 0x80u) ++back;
  const std::string_view tail = text.substr(text.size() - back);
  if (utf8_prefix(tail) == back) return first_character(tail);
  return {0xfffd, 1};
}

/// Unicode's property White_Space, for tokenizers. It has not changed since Unicode 6.3.
constexpr bool is_unicode_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// What Python's str.isspace() counts, for chat templates and the metrics of benchmarks: White_Space, and the separators U+001C to U+001F.
constexpr bool is_python_space(char32_t c) { return is_unicode_white_space(c) || (c >= 0x1c && c <= 0x1f); }

/// Returns the size in bytes of an incomplete character at the start of the text, or 0 if there is none. The text must not begin with a
/// complete character of several bytes. The counted bytes begin a well-formed character but do not complete it. Unicode 15, section 3.9,
/// calls these bytes a "maximal subpart" and replaces them by one U+FFFD.
constexpr std::size_t utf8_beginning(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0xc2 || first > 0xf4) return 0;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80, most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  std::size_t size = 1;
  for (; size < utf8_length(text[0]) - 1 && size < text.size(); ++size) {
    const auto byte = static_cast<unsigned char>(text[size]);
    if (byte < (size == 1 ? least : 0x80u) || byte > (size == 1 ? most : 0xbfu)) break;
  }
  return size;
}

/// Returns the text with U+FFFD in place of each byte outside of well-formed characters.
inline std::string well_formed(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = utf8_end(text);
    out.append(text.substr(0, end));
    if (end < text.size()) out += "\xef\xbf\xbd";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Returns the characters of UTF-8 text, with U+FFFD in place of each byte outside of well-formed characters.
inline std::u32string characters_of(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_prefix(text);
    out += length > 0 ? utf8_code(text.substr(0, length)) : U'\ufffd';
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

/// Returns a name or value from a file in a form that fits in one line of text. Control bytes and bytes that are not UTF-8 become \xHH. The
/// result is cut after 60 characters.
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
