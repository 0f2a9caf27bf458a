// SPDX-License-Identifier: MIT
#include "words/model_words.hpp"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/model_folder.hpp>
#include <lazyprune/files/read_to_end.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/json_reader.hpp>
#include <lazyprune/text/model_chat.hpp>
#include <lazyprune/text/model_tokenizer.hpp>
#ifdef LAZYPRUNE_HAVE_UNICODE
#include <lazyprune/text/unicode/installed.hpp>
#endif

namespace lazyprune {
namespace program {
namespace {

/// Returns the Unicode tables that many tokenizer.json files need; null if the program was built without a library that has them.
const unicode* known_characters() {
#ifdef LAZYPRUNE_HAVE_UNICODE
  return &installed_unicode();
#else
  return nullptr;
#endif
}

model_chat template_in(const std::filesystem::path& path) {
  return {chat_template(read_to_end(path, chat_template::most_source), path.string()), {}};
}

/// Reads the text as JSON; if it is not JSON, returns the text itself.
jinja::value value_of(const std::string& text) {
  try {
    return jinja::read_json(text, "--template-var", chat_request::most_bytes);
  } catch (const error&) {
    return jinja::user_text(text);
  }
}

}  // namespace

/// The place in which the tokenizer and the chat template are looked for.
struct model_words::source {
  std::filesystem::path path;
  std::optional<opened_model> model{};
  bool is_template = false;

  static source at(const model_flags& flags) {
    source found{model_path(flags)};
    found.is_template = found.path.extension() == ".jinja";
    return found;
  }

  std::optional<tokenizer> tokens() const {
    if (is_template) return std::nullopt;
    return model ? find_tokenizer(model->files(), known_characters()) : load_tokenizer(path, known_characters());
  }

  std::optional<model_chat> chat() const {
    if (is_template) return template_in(path);
    if (model && model->files().is_gguf()) return find_model_chat(*model->files().gguf());
    std::error_code failure;
    const bool is_folder = std::filesystem::is_directory(path, failure);
    const auto gguf = is_folder ? model_folder(path).gguf() : is_gguf_path(path) ? std::optional(path) : std::nullopt;
    if (gguf) return find_model_chat(open_gguf(*gguf).front());
    return is_folder ? find_model_chat(model_folder(path)) : std::nullopt;
  }
};

namespace {

/// Sets the template's bos_token and eos_token from the tokenizer if the model's files do not name them.
void add_own_texts(model_chat& chat, const tokenizer& tokens) {
  if (!chat.own_texts.empty()) return;
  if (const auto bos = tokens.bos()) chat.own_texts.emplace_back("bos_token", tokens.piece(*bos));
  if (const auto eos = tokens.eos()) chat.own_texts.emplace_back("eos_token", tokens.piece(*eos));
}

}  // namespace

model_words::model_words(source from, template_flags chat)
    : from_(std::make_shared<const source>(std::move(from))), chat_(std::move(chat)), tokens_([&] { return from_->tokens(); }) {}
model_words::model_words(const opened_model& model, template_flags chat)
    : model_words(source{.path = model.path(), .model = model}, std::move(chat)) {}
model_words::model_words(const model_flags& flags, template_flags chat) : model_words(source::at(flags), std::move(chat)) {}

const tokenizer& model_words::tokenizer_for(std::string_view who) const {
  if (const auto& tokens = tokens_.get()) return *tokens;
  throw error(who, "", "a model with a tokenizer", "no tokenizer in " + from_->path.string());
}

std::optional<chat_words> model_words::find_chat() const {
  auto chat = chat_.file.empty() ? from_->chat() : std::optional(template_in(chat_.file));
  if (!chat) return std::nullopt;
  if (!tokens_.fault() && tokens_.get()) add_own_texts(*chat, *tokens_.get());
  return chat_words(std::move(*chat), chat_.variables);
}

chat_words model_words::chat_for(std::string_view who) const {
  if (auto chat = find_chat()) return std::move(*chat);
  throw error(who, "", "a model with a chat template, or --chat-template-file", "no chat template in " + from_->path.string());
}

chat_words::chat_words(model_chat chat, std::span<const std::string> variables)
    : chat_(std::make_shared<const model_chat>(std::move(chat))) {
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == 0 || equals == variable.npos) throw error("--template-var", "", "KEY=VALUE", in_quotes(variable));
    variables_.emplace_back(variable.substr(0, equals), value_of(variable.substr(equals + 1)));
  }
}

const std::string& chat_words::source() const { return chat_->format.source(); }

rendered_chat chat_words::render(const chat_request& request) const {
  chat_request whole = request;
  for (const auto& [name, value] : variables_) whole.set(name, value);
  return chat_->render(std::move(whole), [] { return jinja::template_time(std::getenv("SOURCE_DATE_EPOCH")); });
}

chat_request read_chat(const std::string& path) {
  const std::string all = read_to_end(path, chat_request::most_bytes);
  if (const std::size_t first = all.find_first_not_of(" \t\r\n"); first != all.npos && all[first] == '{')
    return chat_request::parse(all, path);
  chat_request request;
  request.set_messages(all, path);
  request.set_add_generation_prompt(true);
  return request;
}

chat_request asked_once(std::string_view text) {
  chat_request chat;
  chat.add("user", text);
  chat.set_add_generation_prompt(true);
  return chat;
}

}  // namespace program
}  // namespace lazyprune
