// SPDX-License-Identifier: MIT
// Finds the tokens in a GGUF file's vocabulary that begin or end a sequence or end a turn. The file's keys hold the ids of some of these
// tokens. Tokens that end a turn are also found by their well-known texts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

#include <lazyprune/core/types.hpp>
#include <lazyprune/files/gguf.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

inline constexpr std::string_view gguf_named_tokens[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                                         "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
inline constexpr std::string_view turn_ends[] = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>"};

/// Returns the id under this key, or nullopt. In some files, 2^32 - 1 and -1 mean "no token".
inline std::optional<token_id> gguf_token_id(const gguf_file& file, std::string_view key, std::size_t tokens) {
  const auto value = file.find(key);
  if (!value || value->number() == 4294967295.0 || value->number() == -1.0) return std::nullopt;
  return static_cast<token_id>(value->whole_number(0, tokens - 1));
}

/// Returns whether a token ends a turn. `type`: from tokenizer.ggml.token_type. Some files mark the tokens of a chat format as user-defined
/// and not as control tokens.
inline bool ends_turn(std::string_view text, double type) {
  constexpr double control = 3, user_defined = 4;
  return (type == control || type == user_defined) && std::ranges::find(turn_ends, text) != std::end(turn_ends);
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
