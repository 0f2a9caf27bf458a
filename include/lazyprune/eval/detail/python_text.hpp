// SPDX-License-Identifier: MIT
// Text as Python's str sees it: the benchmarks' metrics are defined by Python programs, so that what is a word, a digit, a space or a
// lower-case letter is what Python says.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/eval/detail/unicode_tables.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/letter_case.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The characters of UTF-8 text; each byte that is none of it is U+FFFD.
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

/// A set of characters, told by the distances between the places where it begins and ends.
template <std::size_t N>
class character_set {
 public:
  constexpr explicit character_set(const std::array<std::uint32_t, N>& steps) : borders_{} {
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < N; ++i) borders_[i] = at += steps[i];
  }
  constexpr bool contains(char32_t c) const {
    return (std::ranges::upper_bound(borders_, static_cast<std::uint32_t>(c)) - borders_.begin()) % 2 == 1;
  }

 private:
  std::array<std::uint32_t, N> borders_;
};

inline constexpr character_set word_characters(word_steps);
inline constexpr character_set digit_characters(digit_steps);
inline constexpr character_set cased_characters(cased_steps);
inline constexpr character_set ignorable_characters(ignorable_steps);

constexpr bool is_word(char32_t c) { return word_characters.contains(c); }
constexpr bool is_digit(char32_t c) { return digit_characters.contains(c); }

/// string.punctuation.
constexpr bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// A sigma that ends a word is written otherwise: a cased letter stands before it and none after it, the ignorable ones not counted.
inline bool is_final_sigma(std::u32string_view text, std::size_t at) {
  std::size_t before = at, after = at + 1;
  while (before > 0 && ignorable_characters.contains(text[before - 1])) --before;
  while (after < text.size() && ignorable_characters.contains(text[after])) ++after;
  return before > 0 && cased_characters.contains(text[before - 1]) && (after == text.size() || !cased_characters.contains(text[after]));
}

/// str.lower().
inline std::u32string lower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 0x130)
      out += U"i\u0307";
    else if (text[i] == 0x3a3)
      out += is_final_sigma(text, i) ? U'\u03c2' : U'\u03c3';
    else
      out += static_cast<char32_t>(lower_case(text[i]));
  }
  return out;
}

/// The longest stretches of characters that belong, as views into the text.
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

/// str.split().
inline std::vector<std::u32string_view> words_of(std::u32string_view text) {
  return stretches(text, [](char32_t c) { return !is_python_space(c); });
}

/// re.findall(r"\d+").
inline std::vector<std::u32string_view> numbers_in(std::u32string_view text) { return stretches(text, is_digit); }

/// str.strip().
inline std::u32string_view stripped(std::u32string_view text) {
  while (!text.empty() && is_python_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_python_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
