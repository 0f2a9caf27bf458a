// SPDX-License-Identifier: MIT
// tokenizer_config.json, as transformers writes it beside a tokenizer: its special tokens, and how a text begins.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <lazyprune/files/json.hpp>
#include <lazyprune/files/model_folder.hpp>

namespace lazyprune {
inline namespace v0 {

/// The folder's tokenizer_config.json; none where it has none. Throws `error` where it is no JSON, or has more than 16 MiB: the largest
/// that is known, which lists thousands of added tokens, has 1.2 MB.
inline std::optional<json_value> find_tokenizer_config(const model_folder& folder) {
  constexpr std::string_view name = "tokenizer_config.json";
  if (!folder.has(name)) return std::nullopt;
  return folder.read_json(name, std::size_t{16} << 20);
}

/// The text of a special token: "<s>", or {"content": "<s>"}; none where it is missing or null.
inline std::optional<json_value> token_text_of(const json_value& config, std::string_view key) {
  auto token = config.find(key);
  return !token || token->is_string() ? std::move(token) : token->at("content");
}

}  // namespace v0
}  // namespace lazyprune
