// SPDX-License-Identifier: MIT
// ROUGE-L as in the Python package `rouge` 1.0.1, which LongBench uses. It compares sentences, which end at '.', and counts each different
// word once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <lazyprune/eval/detail/python_text.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

using sentence = std::vector<std::uint32_t>;  // words, as numbers

/// Reads texts as sentences of words. The same word gets the same number in all texts that one reader reads.
class sentence_reader {
 public:
  std::vector<sentence> read(std::u32string_view text) {
    std::vector<sentence> out;
    for (const std::u32string_view piece : stretches(text, [](char32_t c) { return c != U'.'; })) {
      sentence words;
      for (const std::u32string_view word : words_of(piece)) words.push_back(number_of(word));
      if (words.empty()) words.push_back(number_of({}));  // only spaces: they count as one empty word
      out.push_back(std::move(words));
    }
    return out;
  }

 private:
  std::uint32_t number_of(std::u32string_view word) {
    return numbers_.emplace(word, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::unordered_map<std::u32string, std::uint32_t> numbers_;
};

/// Adds the words of a longest common subsequence of `a` and `b` to the set `to`. If there are several such subsequences, their words may
/// differ, so the order of the search matters: it goes back from the ends of both sentences, and steps back in `b` if both steps are
/// equally good.
inline void add_common_subsequence(const sentence& a, const sentence& b, std::unordered_set<std::uint32_t>& to) {
  const std::size_t width = b.size();
  std::vector<std::uint32_t> above(width + 1, 0), row(width + 1, 0);  // lengths for the first i words of a and the first j of b
  std::vector<bool> upwards(a.size() * width);                        // whether leaving out a's word keeps more words than leaving out b's
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= width; ++j) {
      row[j] = a[i - 1] == b[j - 1] ? above[j - 1] + 1 : std::max(above[j], row[j - 1]);
      upwards[(i - 1) * width + j - 1] = above[j] > row[j - 1];
    }
    std::swap(above, row);
  }
  for (std::size_t i = a.size(), j = width; i > 0 && j > 0;) {
    if (a[i - 1] == b[j - 1]) {
      to.insert(a[i - 1]);
      --i, --j;
    } else {
      upwards[(i - 1) * width + j - 1] ? --i : --j;
    }
  }
}

inline std::size_t different_words(const std::vector<sentence>& text) {
  std::unordered_set<std::uint32_t> words;
  for (const sentence& s : text) words.insert(s.begin(), s.end());
  return words.size();
}

inline double rouge_l(std::u32string_view prediction, std::u32string_view answer) {
  sentence_reader reader;
  const std::vector<sentence> of_prediction = reader.read(prediction), of_answer = reader.read(answer);
  if (of_prediction.empty() || of_answer.empty()) return 0.0;
  std::unordered_set<std::uint32_t> common;
  for (const sentence& a : of_answer)
    for (const sentence& p : of_prediction) add_common_subsequence(a, p, common);
  const double found = static_cast<double>(common.size());
  const double recall = found / static_cast<double>(different_words(of_answer));
  const double precision = found / static_cast<double>(different_words(of_prediction));
  return 2.0 * (precision * recall / (precision + recall + 1e-8));
}

}  // namespace detail

/// LongBench's rouge_score, from 0 to 1 (a little below 1 for equal texts). It takes one bit of memory for each pair of words of two
/// sentences. The package recurses over the words of two sentences. So LongBench returns 0 if they have more words than Python's recursion
/// limit (1,000). This function has no such limit.
inline double rouge_l(std::string_view prediction, std::string_view answer) {
  return detail::rouge_l(characters_of(prediction), characters_of(answer));
}

/// ROUGE-L over characters, from 0 to 1. It replaces LongBench's rouge_zh_score, whose words come from the program jieba.
inline double rouge_l_chars(std::string_view prediction, std::string_view answer) {
  const auto apart = [](std::string_view text) {
    std::u32string out;
    for (const char32_t c : characters_of(text)) {
      if (!out.empty()) out += U' ';
      out += c;
    }
    return out;
  };
  return detail::rouge_l(apart(prediction), apart(answer));
}

}  // namespace v0
}  // namespace lazyprune
