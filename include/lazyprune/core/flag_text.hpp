// SPDX-License-Identifier: MIT
// Reads and writes numbers, lists and names in the text of a flag. A text is a number only as a whole. Numbers are written in the shortest
// form that reads back as the same number.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/finite.hpp>

namespace lazyprune {
inline namespace v0 {

/// The whole text as a number. nullopt if the text is not a number, has other characters around the number, or if the number does not fit
/// into T. Infinity and NaN do not count as numbers.
template <class T>
  requires std::integral<T> || std::floating_point<T> std::optional<T> number_in(std::string_view text) {
    T value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if constexpr (std::floating_point<T>)
      if (!is_finite(value)) return std::nullopt;
    return value;
  }

template <class T>
  requires std::integral<T> || std::floating_point<T> std::string text_of_number(T value) {
    std::array<char, 32> digits;
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
  }

/// The pieces between the separators. n separators give n + 1 pieces, but an empty text has no pieces.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  if (text.empty()) return pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == text.npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

/// "one of a, b, c": the elements of a range, or what `name_of` returns for each.
template <class Range, class Projection = std::identity>
std::string one_of_names(const Range& names, Projection name_of = {}) {
  std::string all;
  for (const auto& name : names) all.append(all.empty() ? "one of " : ", ").append(std::invoke(name_of, name));
  return all;
}

}  // namespace v0
}  // namespace lazyprune
