// SPDX-License-Identifier: MIT
// Chat templates: Jinja as transformers sets it up, run by a small interpreter with bounds. What comes out are runs of the template's own
// text and of the user's (text_run.hpp says what a tokenizer does with them), so that no message, tool or variable can become a special
// token, or another one that the template writes.
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

/// The template itself refused the chat, by raise_exception.
class chat_refused : public error {
 public:
  chat_refused(std::string_view file, std::string_view place, std::string message)
      : error(file, place, "a chat that the template takes", one_line(message)), message_(std::move(message)) {}

  /// The template's words, as they are; in `what()` control characters are escaped.
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

/// What a template is given: messages, and variables such as tools. All of it is the user's text, but for what `set_own` sets, and for a
/// role that is one of the words that all templates know (user, assistant, system, tool, ...): templates write special tokens around roles,
/// and
/// '<|' + role + '|>' is one of them only where such a word counts as the template's.
class chat_request {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;  // of JSON

  chat_request() {
    set("messages", jinja::value(std::make_shared<const jinja::sequence>(jinja::sequence{jinja::sequence_kind::list, {}})));
    set("tools", jinja::none_type{});
    set("documents", jinja::none_type{});
    set("add_generation_prompt", jinja::value(false));
  }

  /// A request in JSON: {"messages": [...], "add_generation_prompt": true, ...variables}. Throws `error` where it is not an object with
  /// messages as below; `where` stands before each place in it.
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

  /// One more message, after those before it.
  void add(std::string_view role, std::string_view content) { insert(role, content, false); }
  /// A message before all others.
  void add_first(std::string_view role, std::string_view content) { insert(role, content, true); }
  /// All messages: a JSON list of {"role", "content", ...}. Throws `error` where one has no role, or a content that is neither text, nor a
  /// list of parts, nor null; whether it needs one, its template says.
  void set_messages(std::string_view json, std::string_view file) {
    jinja::value all = jinja::read_json(json, file, most_bytes);
    check(all, file, "");
    bytes_ += json.size();
    set("messages", std::move(all));
  }
  void set_add_generation_prompt(bool adds) { set("add_generation_prompt", jinja::value(adds)); }

  /// A variable of the user's; `messages` too.
  void set(std::string_view name, jinja::value v) {
    if (name == "messages") v = with_known_roles(v);
    if (jinja::value* old = find(name))
      *old = std::move(v);
    else
      variables_.emplace_back(name, std::move(v));
  }
  /// A text of the model's own, such as bos_token: where the user gave a variable of that name, the user's stays.
  void set_own(std::string_view name, std::string_view text) {
    if (!find(name)) variables_.emplace_back(name, jinja::template_text(text));
  }

  const std::vector<std::pair<std::string, jinja::value>>& variables() const { return variables_; }
  /// About so many bytes were given: what a rendering may cost grows with them.
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

/// A chat's text, and whose its parts are.
class rendered_chat {
 public:
  /// `template_words`: see the accessor.
  rendered_chat(jinja::tagged_text text, std::shared_ptr<const std::string> template_words)
      : text_(std::move(text)), template_words_(std::move(template_words)) {}

  const std::string& text() const { return text_.bytes(); }
  /// For a tokenizer. They point into this object.
  std::vector<text_run> runs() const { return text_.runs(); }
  /// Every text that stands in the template, a line each, whether this chat has it or not; then the template's own runs. For a tokenizer:
  /// no message becomes a token whose text stands here.
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

  /// `name` is the file in errors. Throws `error`, with line and column, where the source is no template, or needs what is not computed
  /// here.
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

  /// The chat's text. `now` is asked where the template calls strftime_now. Throws `chat_refused` where the template refuses the chat,
  /// `error` where it stumbles or takes too long. Several threads may render at once.
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
  std::shared_ptr<const std::string> words_;  // of rendered_chat::template_words
};

}  // namespace v0
}  // namespace lazyprune
