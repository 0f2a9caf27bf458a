// SPDX-License-Identifier: MIT
// Chat templates: Jinja as transformers configures it, run by a small interpreter with limits. The result is a list of runs, each written
// by the template or by the user. Thanks to the runs, no message, tool or variable can become a special token, or another token that the
// template writes (text_run.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/clock.hpp>
#include <lazyprune/text/jinja/interpreter.hpp>
#include <lazyprune/text/jinja/json_reader.hpp>
#include <lazyprune/text/jinja/lexer.hpp>
#include <lazyprune/text/jinja/parser.hpp>
#include <lazyprune/text/jinja/printing.hpp>
#include <lazyprune/text/jinja/tagged_text.hpp>
#include <lazyprune/text/jinja/value.hpp>
#include <lazyprune/text/text_run.hpp>

namespace lazyprune {
inline namespace v0 {

/// Thrown when the template itself refused the chat with raise_exception.
class chat_refused : public error {
 public:
  chat_refused(std::string_view file, std::string_view place, std::string message)
      : error(file, place, "a chat that the template accepts", one_line(message)), message_(std::move(message)) {}

  /// The template's words, unchanged. In `what()`, control characters are escaped.
  const std::string& message() const noexcept { return message_; }

 private:
  static std::string one_line(std::string_view text) {
    std::string out;
    for (; !text.empty(); text.remove_prefix(std::max<std::size_t>(utf8_prefix(text), 1)))
      out += printable(text.substr(0, std::max<std::size_t>(utf8_prefix(text), 1)));
    return out;
  }

  std::string message_;
};

/// The inputs of a template: messages, and variables such as tools. They all count as the user's text, with two exceptions. The first are
/// the variables that `set_own` sets. The second are roles that all templates know (user, assistant, system, tool, ...), because a template
/// may build a special token as '<|' + role + '|>'.
class chat_request {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;  // the largest size of a request in JSON

  chat_request() {
    set("messages", jinja::value(std::make_shared<const jinja::sequence>(jinja::sequence{jinja::sequence_kind::list, {}})));
    set("tools", jinja::none_type{});
    set("documents", jinja::none_type{});
    set("add_generation_prompt", jinja::value(false));
  }

  /// Parses a request in JSON: {"messages": [...], "add_generation_prompt": true, ...variables}. Throws `error` if the JSON is not an
  /// object with "messages", or if `set_messages` would refuse the messages. The place in an error begins with `where`.
  static chat_request parse(std::string_view json, std::string_view file, std::string_view where = {}) {
    const jinja::value all = jinja::read_json(json, file, most_bytes, where);
    if (!all.dict()) throw error(file, where, "an object", jinja::described(all));
    const jinja::value* const messages = all.dict()->find("messages");
    if (!messages) throw error(file, where, "the key \"messages\"", "none");
    check(*messages, file, where);
    chat_request request;
    for (const auto& [key, item] : all.dict()->entries) request.set(key.text()->bytes(), item);
    request.bytes_ += json.size();
    return request;
  }

  /// Adds a message at the end.
  void add(std::string_view role, std::string_view content) { insert(role, content, false); }
  /// Adds a message before all other messages.
  void add_first(std::string_view role, std::string_view content) { insert(role, content, true); }
  /// Sets all messages, from a JSON list of {"role", "content", ...}. Throws `error` if a message has no role, or if its content is not a
  /// string, a list or null. A message may have no content: the template decides whether it needs one.
  void set_messages(std::string_view json, std::string_view file) {
    jinja::value all = jinja::read_json(json, file, most_bytes);
    check(all, file, "");
    bytes_ += json.size();
    set("messages", std::move(all));
  }
  /// Marks the content of message i as a document (text_run.hpp) if `documents[i]` is true. If the content is a list of parts, marks the
  /// texts of the parts.
  void mark_documents(const std::vector<bool>& documents) {
    const jinja::value* const messages = find("messages");
    if (!messages->sequence()) return;
    jinja::sequence all = *messages->sequence();
    for (std::size_t i = 0; i < std::min(documents.size(), all.items.size()); ++i)
      if (documents[i]) all.items[i] = with_document(all.items[i], "content");
    set("messages", std::make_shared<const jinja::sequence>(std::move(all)));
  }
  /// Drops all messages but the first `count`.
  void keep_first(std::size_t count) {
    const jinja::value* const messages = find("messages");
    if (!messages->sequence() || messages->sequence()->items.size() <= count) return;
    jinja::sequence all = *messages->sequence();
    all.items.resize(count);
    set("messages", std::make_shared<const jinja::sequence>(std::move(all)));
  }
  void set_add_generation_prompt(bool adds) { set("add_generation_prompt", jinja::value(adds)); }

  /// Sets a variable, `messages` included. Its strings count as the user's text.
  void set(std::string_view name, jinja::value v) {
    if (name == "messages") v = with_known_roles(v);
    if (jinja::value* old = find(name))
      *old = std::move(v);
    else
      variables_.emplace_back(name, std::move(v));
  }
  /// Sets a variable that counts as the template's text, such as bos_token. Does nothing if the request already has a variable
  /// of this name.
  void set_own(std::string_view name, std::string_view text) {
    if (!find(name)) variables_.emplace_back(name, jinja::template_text(text));
  }

  const std::vector<std::pair<std::string, jinja::value>>& variables() const { return variables_; }
  /// Returns roughly how many bytes the request has. The limit of steps for a rendering grows with this number.
  std::size_t bytes() const { return bytes_; }

 private:
  static void check(const jinja::value& messages, std::string_view file, std::string_view where) {
    if (!messages.sequence()) throw error(file, where, "a list of messages", jinja::described(messages));
    std::size_t number = 0;
    for (const jinja::value& message : messages.sequence()->items) {
      const std::string place = std::string(where) + (where.empty() ? "message " : ": message ") + std::to_string(++number);
      if (!message.dict()) throw error(file, place, "an object", jinja::described(message));
      const jinja::value *const role = message.dict()->find("role"), *const content = message.dict()->find("content");
      if (!role || !role->text()) throw error(file, place + ": role", "a string", role ? jinja::described(*role) : "none");
      if (content && !content->text() && !content->sequence() && !content->is_none())
        throw error(file, place + ": content", "a string, a list of parts or null", jinja::described(*content));
    }
  }

  void insert(std::string_view role, std::string_view content, bool first) {
    jinja::dict message;
    message.set(jinja::user_text("role"), jinja::user_text(role));
    message.set(jinja::user_text("content"), jinja::user_text(content));
    const jinja::value* messages = find("messages");
    std::vector<jinja::value> all = messages->sequence() ? messages->sequence()->items : std::vector<jinja::value>{};
    all.insert(first ? all.begin() : all.end(), std::make_shared<const jinja::dict>(std::move(message)));
    std::size_t height = 0;
    for (const jinja::value& item : all) height = std::max(height, jinja::height_of(item));
    bytes_ += role.size() + content.size();
    set("messages", std::make_shared<const jinja::sequence>(jinja::sequence{jinja::sequence_kind::list, std::move(all), height + 1}));
  }

  /// Returns the dictionary with the text under this key, or the texts of the parts under it, marked as a document.
  static jinja::value with_document(const jinja::value& of, const char* key) {
    const jinja::value* const content = of.dict() ? of.dict()->find(key) : nullptr;
    if (!content || (!content->text() && !content->sequence())) return of;
    jinja::dict changed = *of.dict();
    if (content->text()) {
      changed.set(jinja::user_text(key), jinja::tagged_text(content->text()->bytes(), false, true));
    } else {
      jinja::sequence parts = *content->sequence();
      for (jinja::value& part : parts.items) part = with_document(part, "text");
      changed.set(jinja::user_text(key), std::make_shared<const jinja::sequence>(std::move(parts)));
    }
    return std::make_shared<const jinja::dict>(std::move(changed));
  }

  jinja::value* find(std::string_view name) {
    const auto at = std::ranges::find(variables_, name, [](const auto& v) { return std::string_view(v.first); });
    return at == variables_.end() ? nullptr : &at->second;
  }

  static jinja::value with_known_roles(const jinja::value& messages) {
    if (!messages.sequence()) return messages;
    jinja::sequence all = *messages.sequence();
    for (jinja::value& message : all.items) {
      const jinja::value* role = message.dict() ? message.dict()->find("role") : nullptr;
      if (!role || !role->text() || role->text()->trusted()) continue;
      for (const std::string_view known : {"system", "user", "assistant", "tool", "developer", "function", "model", "ipython"}) {
        if (role->text()->bytes() != known) continue;
        jinja::dict changed = *message.dict();
        changed.set(jinja::user_text("role"), jinja::template_text(known));
        message = std::make_shared<const jinja::dict>(std::move(changed));
        break;
      }
    }
    return std::make_shared<const jinja::sequence>(std::move(all));
  }

  std::vector<std::pair<std::string, jinja::value>> variables_;
  std::size_t bytes_ = 0;
};

/// The text of a chat, with the origin (template or user) of each stretch.
class rendered_chat {
 public:
  /// `template_words`: all texts and strings in the template's source, one per line.
  rendered_chat(jinja::tagged_text text, std::shared_ptr<const std::string> template_words)
      : text_(std::move(text)), template_words_(std::move(template_words)) {}

  const std::string& text() const { return text_.bytes(); }
  /// Returns the text in runs, for a tokenizer. The runs are views of this object.
  std::vector<text_run> runs() const { return text_.runs(); }
  /// Returns all texts and strings in the template's source, one per line, even those that this chat does not use. After them come the
  /// texts of the trusted runs (text_run.hpp). If the text of an added token occurs in the result, the tokenizer does not let a message
  /// become that token.
  std::string template_words() const {
    std::string words = *template_words_;
    for (const text_run& run : runs())
      if (run.trusted) words.append(run.text) += '\n';
    return words;
  }

 private:
  jinja::tagged_text text_;
  std::shared_ptr<const std::string> template_words_;
};

class chat_template {
 public:
  static constexpr std::size_t most_source = std::size_t{1} << 20;  // bytes

  /// Parses a template. Errors name the file `name`. Throws `error`, with line and column, if the source is malformed or uses something
  /// that is not supported.
  explicit chat_template(std::string source, std::string name = "chat template") : source_(std::move(source)), name_(std::move(name)) {
    if (source_.size() > most_source)
      throw error(name_, "", "at most " + std::to_string(most_source) + " bytes", std::to_string(source_.size()));
    if (const std::size_t end = utf8_end(source_); end < source_.size())
      throw error(name_, "byte " + std::to_string(end), "UTF-8", "another byte");
    tree_ = std::make_shared<const jinja::block>(jinja::parser(source_, name_).run());
    std::string words;
    for (const jinja::token& token : jinja::lexer(source_, name_).run())
      if (token.kind == jinja::token_kind::text || token.kind == jinja::token_kind::string) words.append(token.text) += '\n';
    words_ = std::make_shared<const std::string>(std::move(words));
  }

  const std::string& source() const { return source_; }
  const std::string& name() const { return name_; }

  /// Renders a chat. `now` is called if the template calls strftime_now. Throws `chat_refused` if the template refuses the chat. Throws
  /// `error` if the template fails or takes too many steps. Several threads may render at the same time.
  rendered_chat render(
      const chat_request& request, const std::function<std::tm()>& now = [] { return jinja::template_time(nullptr); }) const {
    jinja::scope variables;
    for (const auto& [name, item] : request.variables()) variables.names.emplace_back(name, item);
    jinja::budget work(least_steps + steps_per_byte * request.bytes());
    jinja::interpreter run(variables, now, work);
    try {
      return rendered_chat(run.render(*tree_), words_);
    } catch (const jinja::raised_exception& raised) {
      throw chat_refused(name_, jinja::place(run.where()), raised.message);
    } catch (const error& fault) {
      if (!fault.file().empty()) throw;
      throw error(name_, jinja::place(run.where()), fault.expected(), fault.found(), fault.code());
    }
  }

 private:
  static constexpr std::size_t least_steps = std::size_t{1} << 20, steps_per_byte = 8;

  std::string source_, name_;
  std::shared_ptr<const jinja::block> tree_;
  std::shared_ptr<const std::string> words_;  // all texts and strings in the source, one per line
};

}  // namespace v0
}  // namespace lazyprune
