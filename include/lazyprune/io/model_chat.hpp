// SPDX-License-Identifier: MIT
// Where a model folder keeps its chat template, and the texts that the template counts as its own.
#pragma once

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/io/chat_template.hpp>
#include <lazyprune/io/json.hpp>
#include <lazyprune/io/read_to_end.hpp>
#include <lazyprune/io/text.hpp>

namespace lazyprune {
inline namespace v0 {

struct model_chat {
  chat_template format;
  std::vector<std::pair<std::string, std::string>> own_texts;  // bos_token, eos_token and the like, with their values

  /// The chat's text; the request's variables come before the model's own texts.
  rendered_chat render(
      chat_request request, const std::function<std::tm()>& now = [] { return jinja::template_time(nullptr); }) const {
    for (const auto& [name, text] : own_texts) request.set_own(name, text);
    return format.render(request, now);
  }
};

namespace detail {

/// The special tokens that a tokenizer_config.json names, each a string or an object with its content.
inline std::vector<std::pair<std::string, std::string>> own_texts_of(const json_value& config) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string_view name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (const auto token = config.find(name)) all.emplace_back(name, (token->is_string() ? *token : token->at("content")).string());
  return all;
}

/// The key chat_template: a source, or a list of named ones, of which `default` counts. None where it is missing.
inline std::optional<std::string> template_source_of(const json_value& config) {
  const auto found = config.find("chat_template");
  if (!found) return std::nullopt;
  if (!found->is_array()) return found->string();
  std::string names;
  for (const json_value& named : found->items()) {
    if (named.at("name").string() == "default") return named.at("template").string();
    names += (names.empty() ? "" : ", ") + named.at("name").string();
  }
  throw error(found->file(), found->place(), "a template of the name \"default\"", names.empty() ? "none" : in_quotes(names));
}

}  // namespace detail

/// The chat template of a model folder: chat_template.jinja, else that of tokenizer_config.json; none where the folder has neither. Throws
/// `error` where a file cannot be read or the template needs what is not computed here.
inline std::optional<model_chat> find_model_chat(const std::filesystem::path& folder) {
  constexpr std::size_t most_config = std::size_t{16} << 20;  // bytes; those that list thousands of added tokens have more than one MiB
  const auto path_of = [&](std::string_view name) -> std::optional<std::filesystem::path> {
    std::error_code ignored;  // a link that leads nowhere is there: opening it says what is wrong with it
    if (std::filesystem::symlink_status(folder / name, ignored).type() == std::filesystem::file_type::not_found) return std::nullopt;
    return folder / name;
  };
  std::vector<std::pair<std::string, std::string>> own_texts;
  std::optional<std::string> source;
  std::string name;
  if (const auto path = path_of("tokenizer_config.json")) {
    name = path->string();
    const json_value config = json_value::parse(read_to_end(*path, most_config), name, most_config);
    own_texts = detail::own_texts_of(config);
    source = detail::template_source_of(config);
    name += ": chat_template";
  }
  if (const auto path = path_of("chat_template.jinja")) {
    name = path->string();
    source = read_to_end(*path, chat_template::most_source);
  }
  if (!source) return std::nullopt;
  return model_chat{chat_template(*std::move(source), std::move(name)), std::move(own_texts)};
}

}  // namespace v0
}  // namespace lazyprune
