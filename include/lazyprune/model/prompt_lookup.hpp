// SPDX-License-Identifier: MIT
// Drafts for speculative decoding without a draft model. The last tokens of a sequence often occur earlier in it. The tokens after that
// earlier place are likely to follow again (prompt lookup decoding, https://github.com/apoorvumang/prompt-lookup-decoding).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// Guesses the next `count` tokens of a sequence. It compares the end of the sequence with every earlier place, and finds the longest
/// match, at most `longest` tokens. It returns the tokens that follow the match at the earlier place. Among equally long matches it takes
/// the latest. If the tokens after the match reach the end of the sequence, the draft continues with its own first tokens. The result is
/// empty if the last token does not occur earlier. Makes at most tokens.size() * longest comparisons.
inline std::vector<token_id> prompt_lookup(std::span<const token_id> tokens, std::size_t count, std::size_t longest = 8) {
  std::vector<token_id> draft;
  std::size_t most = 0, next = 0;  // length of the longest match, and the index after it
  for (std::size_t end = tokens.size(); end-- > 1 && most < longest;) {
    std::size_t n = 0;
    while (n < std::min(end, longest) && tokens[end - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
    if (n <= most) continue;
    most = n;
    next = end;
  }
  if (most == 0) return draft;
  draft.reserve(count);
  for (std::size_t i = next; draft.size() < count; ++i) draft.push_back(i < tokens.size() ? tokens[i] : draft[i - tokens.size()]);
  return draft;
}

}  // namespace v0
}  // namespace lazyprune
