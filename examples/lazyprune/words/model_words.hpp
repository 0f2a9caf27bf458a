// SPDX-License-Identifier: MIT
// Finds a model's tokenizer and chat template. No weights are needed.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/flags.hpp"
#include "models/model_choice.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
inline namespace v0 {
struct model_chat;
}  // namespace v0

namespace program {

/// A T that was searched for once: found, absent, or broken. A broken T is an error only for callers that need it.
template <class T>
class found_once {
 public:
  /// `find` returns an optional<T>. Its errors with code io or no_memory are thrown at once; other errors are kept for `get`.
  template <class Find>
  explicit found_once(Find find) {
    try {
      part_ = find();
    } catch (const error& fault) {
      if (fault.code() == error_code::io || fault.code() == error_code::no_memory) throw;
      fault_ = fault;
    }
  }

  const std::optional<error>& fault() const { return fault_; }
  /// Returns nullopt if the T is absent. Throws `error` if it is broken.
  const std::optional<T>& get() const {
    if (fault_) throw *fault_;
    return part_;
  }

 private:
  std::optional<T> part_;
  std::optional<error> fault_;
};

/// A chat template together with the model's own texts for it, such as bos_token.
class chat_words {
 public:
  /// Each variable is KEY=VALUE; the value is JSON, or a text if it is not JSON. Every rendering gets these variables. Throws `error` if
  /// a variable has no key or no equals sign.
  explicit chat_words(model_chat chat, std::span<const std::string> variables = {});

  const std::string& source() const;

  /// Renders the chat. A variable of this object replaces the chat's variable of the same name. The clock is SOURCE_DATE_EPOCH if that is
  /// set. Throws `error` as chat_template::render does.
  rendered_chat render(const chat_request& request) const;

 private:
  std::shared_ptr<const model_chat> chat_;
  std::vector<std::pair<std::string, jinja::value>> variables_;
};

class model_words {
 public:
  /// Reads the tokenizer of an open model.
  explicit model_words(const opened_model& model, template_flags chat = {});
  /// Reads the tokenizer of a model, of a folder with nothing but tokenizer files, or of one such file. A .jinja file has a template and no
  /// tokenizer. Any other path yields a tokenizer that cannot be used; see `tokens`.
  explicit model_words(const model_flags& flags, template_flags chat = {});

  const found_once<tokenizer>& tokens() const { return tokens_; }
  /// Throws `error` if there is no tokenizer or it cannot be used. `who` is the flag or command that needs it.
  const tokenizer& tokenizer_for(std::string_view who) const;

  /// Reads the template of --chat-template-file or, without that flag, the model's template. Returns nullopt if there is no template.
  /// Throws `error` if the template cannot be used.
  std::optional<chat_words> find_chat() const;
  /// Like find_chat, but also throws `error` if there is no template. `who` is the flag or command that needs the template.
  chat_words chat_for(std::string_view who) const;

 private:
  struct source;
  model_words(source from, template_flags chat);

  std::shared_ptr<const source> from_;
  template_flags chat_;
  found_once<tokenizer> tokens_;
};

/// Reads a chat from a file: a list of messages, to be followed by an answer, or an object with messages and variables
/// (chat_request::parse). Throws `error` if the file holds neither.
chat_request read_chat(const std::string& path);

/// Returns a chat of one message, the user's, that an answer follows.
chat_request asked_once(std::string_view text);

}  // namespace program
}  // namespace lazyprune
