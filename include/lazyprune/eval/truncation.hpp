// SPDX-License-Identifier: MIT
// Prompts that are longer than a model's limit, cut in the middle as LongBench's pred.py does it: instructions stand at both ends.
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

/// Returns the text itself where it has at most `most` tokens, else the text of its first most / 2 tokens joined with that of its last
/// most / 2.
/// encode(text) gives the ids as the model reads them, BOS included, which counts; decode(ids) gives their text without special tokens.
/// Encoded anew, the result may have a few tokens more or less, where the halves meet. Throws `error` where `most` is below 2.
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
