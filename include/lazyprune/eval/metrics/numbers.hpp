// SPDX-License-Identifier: MIT
// LongBench's scores for numbers: the share of the numbers in a prediction that are right.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/detail/python_text.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

inline double share_of_numbers(std::string_view prediction, std::u32string_view right) {
  const std::u32string text = characters_of(prediction);
  const std::vector<std::u32string_view> numbers = numbers_in(text);
  if (numbers.empty()) return 0.0;
  return static_cast<double>(std::ranges::count(numbers, right)) / static_cast<double>(numbers.size());
}

/// Returns the digits after the first occurrence of `word` that has digits right after it, or nullopt if there is none.
inline std::optional<std::u32string> number_after(std::u32string_view word, std::u32string_view text) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::u32string_view rest = text.substr(at + word.size());
    const auto end = std::ranges::find_if_not(rest, is_digit);
    if (end != rest.begin()) return std::u32string(rest.begin(), end);
  }
  return std::nullopt;
}

inline double retrieval_score(std::string_view prediction, std::string_view answer, std::string_view word) {
  const auto right = number_after(characters_of(word), characters_of(answer));
  if (!right) throw error("", "answer", in_quotes(std::string(word) + "NUMBER"), in_quotes(answer));
  return share_of_numbers(prediction, *right);
}

}  // namespace detail

/// LongBench's count_score, from 0 to 1. The answer must consist of digits.
inline double count_score(std::string_view prediction, std::string_view answer) {
  return detail::share_of_numbers(prediction, characters_of(answer));
}

/// LongBench's retrieval_score, from 0 to 1. Throws `error` if the answer does not name a paragraph ("Paragraph 7").
inline double retrieval_score(std::string_view prediction, std::string_view answer) {
  return detail::retrieval_score(prediction, answer, "Paragraph ");
}

/// LongBench's retrieval_zh_score: retrieval_score with the Chinese word for paragraph.
inline double retrieval_zh_score(std::string_view prediction, std::string_view answer) {
  return detail::retrieval_score(prediction, answer, "\xe6\xae\xb5\xe8\x90\xbd");
}

}  // namespace v0
}  // namespace lazyprune
