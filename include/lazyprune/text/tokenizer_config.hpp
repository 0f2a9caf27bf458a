// SPDX-License-Identifier: MIT
// Reads tokenizer_config.json, which transformers writes beside a tokenizer: the special tokens and the added tokens.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <lazyprune/core/types.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/text/tokenizer/added_tokens.hpp>
#include <lazyprune/text/tokenizer/vocabulary.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns the folder's tokenizer_config.json, or nullopt if there is none. Throws `error` if it is not JSON or has more than 16 MiB. The
/// largest known file has 1.2 MB, since it lists thousands of added tokens.
inline std::optional<json_value> find_tokenizer_config(const model_folder& folder) {
  constexpr std::string_view name = "tokenizer_config.json";
  if (!folder.has(name)) return std::nullopt;
  return folder.read_json(name, std::size_t{16} << 20);
}

/// Returns the text of the special token that `key` names. The file writes the token as "<s>" or as {"content": "<s>"}. Returns nullopt if
/// the key is missing or null.
inline std::optional<json_value> token_text_of(const json_value& config, std::string_view key) {
  auto token = config.find(key);
  return !token || token->is_string() ? std::move(token) : token->at("content");
}

/// Returns what tokenizer_config.json and added_tokens.json add to the folder's tokenizer: the tokens that they list with ids, and the
/// texts of special tokens. Throws `error` if one of these values has the wrong type, or if an id is out of range.
inline side_file_tokens find_tokens_beside(const model_folder& folder, const std::optional<json_value>& config) {
  side_file_tokens all;
  const auto special = [&](const json_value& token) {
    const json_value text = token.is_string() ? token : token.at("content");
    all.special.push_back(text.string());
  };
  std::map<std::uint64_t, added_token> by_id;
  if (config) {
    all.file = config->file();
    for (const std::string_view name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
      if (const auto token = config->find(name)) special(*token);
    for (const std::string_view name : {"additional_special_tokens", "extra_special_tokens"})
      if (const auto list = config->find(name)) {
        if (list->is_array())
          list->each_item(special);
        else
          list->each_member([&](const std::string&, const json_value& token) { special(token); });
      }
    if (const auto list = config->find("added_tokens_decoder"))
      list->each_member([&](const std::string& key, const json_value& token) {
        std::uint64_t id = 0;
        const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (fault != std::errc{} || end != key.data() + key.size() || id >= vocabulary::most_ids) token.refuse("an id for its key");
        by_id.emplace(id, added_token_of(token));
      });
  }
  if (constexpr std::string_view name = "added_tokens.json"; folder.has(name)) {
    const json_value list = folder.read_json(name, std::size_t{16} << 20);
    if (all.file.empty()) all.file = list.file();
    list.each_member([&](const std::string& text, const json_value& id) {
      by_id.emplace(id.whole_number(0, vocabulary::most_ids - 1), added_token{.text = text, .normalized = true});
    });
  }
  for (auto& [id, token] : by_id) {
    token.id = static_cast<token_id>(id);
    all.added.push_back(std::move(token));
  }
  return all;
}

}  // namespace v0
}  // namespace lazyprune
