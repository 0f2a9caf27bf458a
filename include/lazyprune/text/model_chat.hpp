// SPDX-License-Identifier: MIT
// Finds a model's chat template in a folder or a GGUF file, and the texts of the special tokens that the template may write.
#pragma once

#include <array>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer_config.hpp>

namespace lazyprune {
inline namespace v0 {

struct model_chat {
  chat_template format;
  std::vector<std::pair<std::string, std::string>> own_texts;  // bos_token, eos_token and the like, with their values

  /// Renders the chat. A variable of the request takes precedence over the model's own text of the same name.
  rendered_chat render(
      chat_request request, const std::function<std::tm()>& now = [] { return jinja::template_time(nullptr); }) const {
    for (const auto& [name, text] : own_texts) request.set_own(name, text);
    return format.render(request, now);
  }
};

namespace detail {

/// Returns the names and texts of the special tokens in a tokenizer_config.json. In the file, a text is a string, or the value of `content`
/// in an object.
inline std::vector<std::pair<std::string, std::string>> own_texts_of(const json_value& config) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string_view name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (const auto text = token_text_of(config, name)) all.emplace_back(name, text->string());
  return all;
}

/// Returns the template source under chat_template. If the value is a list of named sources, returns the one named `default`. Returns
/// nullopt if the key is missing. Throws `error` if a list has no `default`.
inline std::optional<std::string> template_source_of(const json_value& config) {
  const auto found = config.find("chat_template");
  if (!found) return std::nullopt;
  if (!found->is_array()) return found->string();
  std::string names;
  for (const json_value& named : found->items()) {
    if (named.at("name").string() == "default") return named.at("template").string();
    names += (names.empty() ? "" : ", ") + named.at("name").string();
  }
  throw error(found->file(), found->place(), "a template named \"default\"", names.empty() ? "none" : in_quotes(names));
}

/// Returns the names and texts of the special tokens that a GGUF file's metadata names by id.
inline std::vector<std::pair<std::string, std::string>> own_texts_of(const gguf_file& file) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> keys{{{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                                               {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                                               {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                                               {"sep_token", "tokenizer.ggml.seperator_token_id"},
                                                                               {"pad_token", "tokenizer.ggml.padding_token_id"},
                                                                               {"mask_token", "tokenizer.ggml.mask_token_id"}}};
  std::vector<std::pair<std::string, std::string>> all;
  const auto tokens = file.find("tokenizer.ggml.tokens");
  if (!tokens) return all;
  const std::vector<std::string_view> texts = tokens->strings();
  for (const auto& [name, key] : keys) {
    const auto id = file.find(key);
    if (!id) continue;
    const double number = id->number();  // -1 or 2^32 - 1 if there is no such token
    if (number >= 0 && number < static_cast<double>(texts.size())) all.emplace_back(name, texts[id->whole_number()]);
  }
  return all;
}

}  // namespace detail

/// Returns the chat template of a model folder: chat_template.jinja, else the one in tokenizer_config.json. Returns nullopt if the folder
/// has neither. Throws `error` if a file cannot be read, or if the template needs something that is not supported.
inline std::optional<model_chat> find_model_chat(const model_folder& folder) {
  constexpr std::string_view file = "chat_template.jinja";
  std::vector<std::pair<std::string, std::string>> own_texts;
  std::optional<std::string> source;
  std::string name;
  if (const auto config = find_tokenizer_config(folder)) {
    own_texts = detail::own_texts_of(*config);
    source = detail::template_source_of(*config);
    name = config->file() + ": chat_template";
  }
  if (folder.has(file)) {
    name = (folder.path() / file).string();
    source = folder.open(file, chat_template::most_source).text();
  }
  if (!source) return std::nullopt;
  return model_chat{chat_template(*std::move(source), std::move(name)), std::move(own_texts)};
}

/// Returns the chat template in a GGUF file's metadata: tokenizer.chat_template, else the one named `default`. Returns nullopt if the file
/// has no template. Throws `error` if all its templates have other names, or if the template needs something that is not supported.
inline std::optional<model_chat> find_model_chat(const gguf_file& file) {
  constexpr std::string_view key = "tokenizer.chat_template";
  auto source = file.find(key);
  if (!source) source = file.find(std::string(key) + ".default");
  if (source) {
    std::string name = file.name() + ": metadata: " + std::string(source->key());
    return model_chat{chat_template(std::string(source->string()), std::move(name)), detail::own_texts_of(file)};
  }
  const std::string before = std::string(key) + ".";
  std::string names;
  for (const gguf_value& named : file.values_under(before))
    names.append(names.empty() ? "" : ", ").append(named.key().substr(before.size()));
  if (names.empty()) return std::nullopt;
  throw error(file.name(), "metadata: " + std::string(key), "a template named \"default\"", in_quotes(names));
}

}  // namespace v0
}  // namespace lazyprune
