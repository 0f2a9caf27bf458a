// SPDX-License-Identifier: MIT
// Drafts for speculative decoding without a second model: what follows where the text's end has stood before is likely to follow again
// (prompt lookup decoding, https://github.com/apoorvumang/prompt-lookup-decoding).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// Guesses the next `count` tokens of a text: those that follow the longest earlier match of its last tokens, at most `longest` of them,
/// the latest such match where there are several. A match that runs into the text's end repeats itself. Empty where the last token has not
/// stood before. Takes text.size() * longest steps at most.
inline std::vector<token_id> prompt_lookup(std::span<const token_id> text, std::size_t count, std::size_t longest = 8) {
  std::vector<token_id> draft;
  std::size_t most = 0, next = 0;  // tokens that match, and where the text goes on after them
  for (std::size_t end = text.size(); end-- > 1 && most < longest;) {
    std::size_t n = 0;
    while (n < std::min(end, longest) && text[end - 1 - n] == text[text.size() - 1 - n]) ++n;
    if (n <= most) continue;
    most = n;
    next = end;
  }
  if (most == 0) return draft;
  draft.reserve(count);
  for (std::size_t i = next; draft.size() < count; ++i) draft.push_back(i < text.size() ? text[i] : draft[i - text.size()]);
  return draft;
}

}  // namespace v0
}  // namespace lazyprune
