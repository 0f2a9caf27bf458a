// SPDX-License-Identifier: MIT
// LongBench's code_sim_score: how similar is the first line of code in a prediction to the right line? The score is fuzz.ratio of the
// Python package `fuzzywuzzy`. LongBench's requirements install this package without python-Levenshtein. Without it, fuzzywuzzy
// compares by difflib's SequenceMatcher, whose ratio is computed below. With python-Levenshtein, fuzzywuzzy gives other scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lazyprune/eval/detail/python_text.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Does what difflib.SequenceMatcher(None, a, b) does: finds the longest common block of `a` and `b`, then searches the texts to the left
/// and to the right of this block in the same way.
class sequence_matcher {
 public:
  sequence_matcher(std::u32string_view a, std::u32string_view b) : a_(a), b_(b) {
    for (std::size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    // As in difflib, a character that makes up more than about 1 % of a long `b` can only extend a block of other characters.
    if (b.size() >= 200) std::erase_if(places_, [&](const auto& entry) { return entry.second.size() > b.size() / 100 + 1; });
  }

  /// Returns twice the number of characters in common blocks, divided by the number of characters in both texts.
  double ratio() {
    std::size_t matches = 0;
    std::vector<range> open{{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const range r = open.back();
      open.pop_back();
      const block found = longest(r);
      if (found.size == 0) continue;
      matches += found.size;
      open.push_back({r.a_begin, found.a, r.b_begin, found.b});
      open.push_back({found.a + found.size, r.a_end, found.b + found.size, r.b_end});
    }
    const std::size_t length = a_.size() + b_.size();
    return length == 0 ? 1.0 : 2.0 * static_cast<double>(matches) / static_cast<double>(length);
  }

 private:
  struct range {
    std::size_t a_begin, a_end, b_begin, b_end;
  };
  struct block {
    std::size_t a, b, size;
  };

  /// Returns the longest block. Among equally long blocks, the first in a wins, then the first in b.
  block longest(const range& r) const {
    block best{r.a_begin, r.b_begin, 0};
    // lengths[j] is the length of the block that ends at a[i - 1] and b[j]. next[j] is that of the block that ends at a[i] and b[j].
    std::unordered_map<std::size_t, std::size_t> lengths, next;
    for (std::size_t i = r.a_begin; i < r.a_end; ++i) {
      next.clear();
      if (const auto places = places_.find(a_[i]); places != places_.end())
        for (const std::size_t j : places->second) {
          if (j < r.b_begin) continue;
          if (j >= r.b_end) break;
          const auto before = j == 0 ? lengths.end() : lengths.find(j - 1);
          const std::size_t size = next[j] = (before == lengths.end() ? 0 : before->second) + 1;
          if (size > best.size) best = {i + 1 - size, j + 1 - size, size};
        }
      std::swap(lengths, next);
    }
    while (best.a > r.a_begin && best.b > r.b_begin && a_[best.a - 1] == b_[best.b - 1]) {
      --best.a;
      --best.b;
      ++best.size;
    }
    while (best.a + best.size < r.a_end && best.b + best.size < r.b_end && a_[best.a + best.size] == b_[best.b + best.size]) ++best.size;
    return best;
  }

  std::u32string_view a_, b_;
  std::unordered_map<char32_t, std::vector<std::size_t>> places_;  // where each character is in b, ascending
};

/// Returns fuzz.ratio of the texts: a whole number from 0 to 100. Halves are rounded to the even number.
inline double fuzz_ratio(std::u32string_view a, std::u32string_view b) {
  if (a == b) return 100.0;
  if (a.empty() || b.empty()) return 0.0;
  return std::nearbyint(100.0 * sequence_matcher(a, b).ratio());
}

}  // namespace detail

/// Returns a score from 0 to 1, in whole hundredths. It compares the answer with the first line of the prediction that has no `, # or //.
/// If there is no such line, it compares the answer with an empty line.
inline double code_similarity(std::string_view prediction, std::string_view answer) {
  std::string_view rest = prediction.substr(std::min(prediction.find_first_not_of('\n'), prediction.size()));
  std::string_view line;
  while (true) {
    const std::string_view candidate = rest.substr(0, rest.find('\n'));
    const bool is_code = candidate.find_first_of("`#") == candidate.npos && candidate.find("//") == candidate.npos;
    if (is_code) line = candidate;
    if (is_code || candidate.size() == rest.size()) break;
    rest.remove_prefix(candidate.size() + 1);
  }
  return detail::fuzz_ratio(characters_of(line), characters_of(answer)) / 100.0;
}

}  // namespace v0
}  // namespace lazyprune
