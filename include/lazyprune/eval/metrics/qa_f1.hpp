// SPDX-License-Identifier: MIT
// LongBench's F1 score of words: how many words the prediction and the answer share, relative to how many they have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/eval/detail/python_text.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Returns F1 of two lists of tokens, whose order does not matter, or 0 if they have no token in common.
template <class Token>
double f1_of(std::vector<Token> prediction, std::vector<Token> answer) {
  std::ranges::sort(prediction);
  std::ranges::sort(answer);
  std::vector<Token> common;
  std::ranges::set_intersection(prediction, answer, std::back_inserter(common));
  if (common.empty()) return 0.0;
  const double same = static_cast<double>(common.size());
  const double precision = same / static_cast<double>(prediction.size());
  const double recall = same / static_cast<double>(answer.size());
  return 2 * precision * recall / (precision + recall);
}

/// Returns the words that count: in lower case, without ASCII punctuation and articles. Other punctuation stays. It ends a word in the
/// search for articles, so the `a` of "a\u2019" is removed.
inline std::vector<std::u32string> answer_words(std::string_view text) {
  std::u32string plain = lower(characters_of(text));
  std::erase_if(plain, is_ascii_punctuation);
  std::u32string kept;
  for (std::size_t i = 0; i < plain.size();) {
    std::size_t end = i;
    while (end < plain.size() && is_word(plain[end])) ++end;
    const std::u32string_view word = std::u32string_view(plain).substr(i, end - i);
    if (word == U"a" || word == U"an" || word == U"the")
      kept += U' ';
    else
      kept += word;
    if (end < plain.size()) kept += plain[end];
    i = end + 1;
  }
  std::vector<std::u32string> words;
  for (const std::u32string_view word : words_of(kept)) words.emplace_back(word);
  return words;
}

/// Returns the characters that count: in lower case, without spaces, ASCII punctuation and the punctuation in LongBench's list.
inline std::vector<char32_t> answer_characters(std::string_view text) {
  constexpr std::u32string_view punctuation =
      U"\uff01\uff1f\uff61\u3002\uff02\uff03\uff04\uff05\uff06\uff07\uff08\uff09\uff0a\uff0b\uff0c\uff0d\uff0f\uff1a\uff1b\uff1c\uff1d"
      U"\uff1e"
      U"\uff20\uff3b\uff3c\uff3d\uff3e\uff3f\uff40\uff5b\uff5c\uff5d\uff5e\uff5f\uff60\uff62\uff63\uff64\u3001\u3003\u300b\u300c\u300d"
      U"\u300e"
      U"\u300f\u3010\u3011\u3014\u3015\u3016\u3017\u3018\u3019\u301a\u301b\u301c\u301d\u301e\u301f\u3030\u303e\u303f\u2013\u2014\u2018"
      U"\u2019"
      U"\u201b\u201c\u201d\u201e\u201f\u2026\u2027\ufe4f";
  const std::u32string plain = lower(characters_of(text));
  std::vector<char32_t> characters;
  for (const char32_t c : plain)
    if (!is_python_space(c) && !is_ascii_punctuation(c) && punctuation.find(c) == punctuation.npos) characters.push_back(c);
  return characters;
}

}  // namespace detail

/// LongBench's qa_f1_score, from 0 to 1.
inline double qa_f1(std::string_view prediction, std::string_view answer) {
  return detail::f1_of(detail::answer_words(prediction), detail::answer_words(answer));
}

/// F1 of characters, from 0 to 1. It replaces LongBench's qa_f1_zh_score, whose words come from the program jieba. The two scores differ,
/// and either may be higher.
inline double qa_f1_chars(std::string_view prediction, std::string_view answer) {
  return detail::f1_of(detail::answer_characters(prediction), detail::answer_characters(answer));
}

}  // namespace v0
}  // namespace lazyprune
