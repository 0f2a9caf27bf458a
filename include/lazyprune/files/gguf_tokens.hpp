// SPDX-License-Identifier: MIT
// Which tokens of a GGUF file's vocabulary begin and end texts and turns: its keys name some, and chats have names that all know.
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

/// The id under this key; none where it is missing, or 2^32 - 1 or -1, which stand for none in some files.
inline std::optional<token_id> gguf_token_id(const gguf_file& file, std::string_view key, std::size_t tokens) {
  const auto value = file.find(key);
  if (!value || value->number() == 4294967295.0 || value->number() == -1.0) return std::nullopt;
  return static_cast<token_id>(value->whole_number(0, tokens - 1));
}

/// Whether a token ends a turn. `type`: of tokenizer.ggml.token_type, where some files call a chat's own tokens user-defined.
inline bool ends_turn(std::string_view text, double type) {
  constexpr double control = 3, user_defined = 4;
  return (type == control || type == user_defined) && std::ranges::find(turn_ends, text) != std::end(turn_ends);
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
