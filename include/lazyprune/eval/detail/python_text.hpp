// SPDX-License-Identifier: MIT
// Functions that split and change texts as Python's str does. The benchmarks define their metrics by Python programs. So Python decides
// which characters are words, digits, spaces or lower-case letters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/detail/unicode_tables.hpp>
#include <lazyprune/text/letter_case.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

inline constexpr character_set word_characters(word_steps);
inline constexpr character_set digit_characters(digit_steps);

constexpr bool is_word(char32_t c) { return word_characters.contains(c); }
constexpr bool is_digit(char32_t c) { return digit_characters.contains(c); }

/// Returns whether Python's string.punctuation has the character.
constexpr bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// Does what Python's str.lower() does.
inline std::u32string lower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) out += lower_letters(text, i);
  return out;
}

/// Returns the longest possible stretches of characters for which `belongs` is true, as views into the text.
template <class Belongs>
std::vector<std::u32string_view> stretches(std::u32string_view text, Belongs belongs) {
  std::vector<std::u32string_view> out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && belongs(text[end])) ++end;
    if (end > i) out.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return out;
}

/// Does what Python's str.split() does.
inline std::vector<std::u32string_view> words_of(std::u32string_view text) {
  return stretches(text, [](char32_t c) { return !is_python_space(c); });
}

/// Does what Python's re.findall(r"\d+", text) does.
inline std::vector<std::u32string_view> numbers_in(std::u32string_view text) { return stretches(text, is_digit); }

/// Does what Python's str.strip() does.
inline std::u32string_view stripped(std::u32string_view text) {
  while (!text.empty() && is_python_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_python_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
