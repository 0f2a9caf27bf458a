// SPDX-License-Identifier: MIT
// What a model makes of text: its tokenizer and its chat template. No weights are needed.
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

/// What was found, or why it cannot be used, which matters only to those who need it.
template <class T>
class found_part {
 public:
  /// `find` returns an optional. Faults of the machine are thrown at once.
  template <class Find>
  explicit found_part(Find find) {
    try {
      part_ = find();
    } catch (const error& fault) {
      if (fault.code() == error_code::io || fault.code() == error_code::no_memory) throw;
      fault_ = fault;
    }
  }

  const std::optional<error>& fault() const { return fault_; }
  /// Returns none where there is none. Throws `error` where it cannot be used.
  const std::optional<T>& get() const {
    if (fault_) throw *fault_;
    return part_;
  }

 private:
  std::optional<T> part_;
  std::optional<error> fault_;
};

/// A model's chat template, with the texts that it counts as its own.
class chat_words {
 public:
  /// The variables are given to each rendering, KEY=VALUE each, the value in JSON or else a text. Throws `error` where one has no key.
  explicit chat_words(model_chat chat, std::span<const std::string> variables = {});

  const std::string& source() const;

  /// The chat's text. The variables come before those of the chat. The clock is SOURCE_DATE_EPOCH's where it is set. Throws `error` as
  /// chat_template::render does.
  rendered_chat render(const chat_request& request) const;

 private:
  std::shared_ptr<const model_chat> chat_;
  std::vector<std::pair<std::string, jinja::value>> variables_;
};

class model_words {
 public:
  /// Reads the tokenizer of a model that is open.
  explicit model_words(const opened_model& model, template_flags chat = {});
  /// Reads that of a model, a folder that holds nothing but tokenizer files, one such file, or a template alone (.jinja). What is none of
  /// these has a tokenizer that cannot be used.
  explicit model_words(const model_flags& flags, template_flags chat = {});

  const found_part<tokenizer>& tokens() const { return tokens_; }
  /// Throws `error` where there is none, which `who` expected, or where it cannot be used.
  const tokenizer& tokenizer_for(std::string_view who) const;

  /// Reads the template of --chat-template-file, else the model's; none where there is none. Throws `error` where it cannot be used.
  std::optional<chat_words> find_chat() const;
  /// Reads the template. Throws `error` where there is none, which `who` expected, or where it cannot be used.
  chat_words chat_for(std::string_view who) const;

 private:
  struct source;
  model_words(source from, template_flags chat);

  std::shared_ptr<const source> from_;
  template_flags chat_;
  found_part<tokenizer> tokens_;
};

/// A chat in a file: a list of messages, which an answer follows; or an object with messages and variables (chat_request::parse). Throws
/// `error` where it is neither.
chat_request read_chat(const std::string& path);

}  // namespace program
}  // namespace lazyprune
