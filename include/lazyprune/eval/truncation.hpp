// SPDX-License-Identifier: MIT
// Shortens prompts that exceed the model's limit. Cuts out the middle, as LongBench's pred.py does, because instructions stand at both
// ends.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns the text itself if it has at most `most` tokens. Otherwise returns the text of its first most / 2 tokens, followed by the text
/// of its last most / 2 tokens. `encode(text)` returns the ids that the model reads; BOS counts. `decode(ids)` returns their text without
/// special tokens. Encoding the result again may give a few tokens more or fewer, because the text where the halves meet is new. Throws
/// `error` if `most` is below 2.
template <class Encode, class Decode>
std::string middle_truncated(std::string_view text, std::size_t most, Encode encode, Decode decode) {
  if (most < 2) throw error("", "prompt", "a limit of at least 2 tokens", std::to_string(most));
  const std::vector<token_id> tokens = encode(text);
  if (tokens.size() <= most) return std::string(text);
  const std::span<const token_id> all(tokens);
  return decode(all.first(most / 2)) + decode(all.last(most / 2));
}

inline std::string middle_truncated(std::string_view text, std::size_t most, const tokenizer& tokens) {
  return middle_truncated(
      text, most, [&](std::string_view t) { return tokens.encode(t); }, [&](std::span<const token_id> ids) { return tokens.decode(ids); });
}

}  // namespace v0
}  // namespace lazyprune
