// SPDX-License-Identifier: MIT
// RULER's scores: does the prediction contain the answers? And the pocket tasks' score: does the prediction equal the answer?
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/detail/python_text.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Returns how many of the answers the prediction contains. Like RULER, it reads control characters as line breaks and compares in lower
/// case.
inline double answers_in(std::string_view prediction, const std::vector<std::string>& answers) {
  if (answers.empty()) throw error("", "answers", "at least one", "none");
  std::u32string text(stripped(characters_of(prediction)));
  std::ranges::replace_if(
      text, [](char32_t c) { return c < 0x20; }, U'\n');
  const std::u32string within = lower(stripped(text));
  const auto is_in = [&](const std::string& answer) { return within.find(lower(characters_of(answer))) != within.npos; };
  return static_cast<double>(std::ranges::count_if(answers, is_in));
}

}  // namespace detail

/// RULER's string_match_all, from 0 to 1: the share of the answers that the prediction contains. Throws `error` if there are no answers.
inline double string_match_all(std::string_view prediction, const std::vector<std::string>& answers) {
  return detail::answers_in(prediction, answers) / static_cast<double>(answers.size());
}

/// RULER's string_match_part, 0 or 1: whether the prediction contains one of the answers. Throws `error` if there are no answers.
inline double string_match_part(std::string_view prediction, const std::vector<std::string>& answers) {
  return detail::answers_in(prediction, answers) > 0 ? 1.0 : 0.0;
}

/// Returns 1 if the prediction equals the answer, except for spaces around it; otherwise 0.
inline double exact_match(std::string_view prediction, std::string_view answer) {
  const std::u32string a = characters_of(prediction), b = characters_of(answer);
  return detail::stripped(a) == detail::stripped(b) ? 1.0 : 0.0;
}

}  // namespace v0
}  // namespace lazyprune
