// SPDX-License-Identifier: MIT
// Counts and classifies the characters of UTF-8 text as Python's strings do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

constexpr std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).size);
  return count;
}

/// Returns the byte at which character `index` begins, or the size of the text if it has fewer characters.
constexpr std::size_t character_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += first_character(text.substr(at)).size;
  return at;
}

/// Returns whether str.splitlines ends a line at this character.
constexpr bool is_line_end(std::uint32_t code) {
  return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

/// Returns whether repr shows the character as it is. Characters that Unicode 14 has not assigned count as printable.
constexpr bool is_printable(std::uint32_t code) {
  constexpr std::uint32_t hidden[][2] = {
      {0x0, 0x1f},        {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},      {0x61c, 0x61c},     {0x6dd, 0x6dd},
      {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x1680, 0x1680},    {0x180e, 0x180e},   {0x2000, 0x200f},
      {0x2028, 0x202f},   {0x205f, 0x2064},   {0x2066, 0x206f},   {0x3000, 0x3000},    {0xd800, 0xf8ff},   {0xfeff, 0xfeff},
      {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x13438},  {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
      {0xe0001, 0xe0001}, {0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}};
  const auto* at =
      std::upper_bound(std::begin(hidden), std::end(hidden), code, [](std::uint32_t c, const auto& range) { return c < range[0]; });
  return at == std::begin(hidden) || code > (*std::prev(at))[1];
}

/// Return the text without leading (str.lstrip) or trailing (str.rstrip) white space.
constexpr std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_python_space(first_character(text).code)) text.remove_prefix(first_character(text).size);
  return text;
}
constexpr std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty() && is_python_space(last_character(text).code)) text.remove_suffix(last_character(text).size);
  return text;
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
