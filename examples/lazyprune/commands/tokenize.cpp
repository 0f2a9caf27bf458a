// SPDX-License-Identifier: MIT
#include "commands/tokenize.hpp"

#include <iostream>
#include <limits>
#include <span>
#include <string_view>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "terminal/columns.hpp"
#include "words/model_words.hpp"

#include <lazyprune/files/json.hpp>
#include <lazyprune/files/json_lines.hpp>
#include <lazyprune/files/line_reader.hpp>
#include <lazyprune/files/read_to_end.hpp>

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

class tokenizing {
 public:
  explicit tokenizing(const tokenize_flags& flags) : flags_(flags), words_(flags.model, flags.words) {}

  int run() {
    if (!flags_.requests.empty()) return answer_requests();
    if (!flags_.messages.empty())
      print(of_chat(read_chat(flags_.messages)));
    else if (!flags_.ids.empty())
      print(of_ids(flags_.ids, "--ids"));
    else
      print(of_text(text()));
    return 0;
  }

 private:
  std::string text() const {
    if (flags_.file && *flags_.file != "-") return read_to_end(*flags_.file, most_streamed_bytes);
    if (flags_.file || *flags_.prompt == "-") return read_to_end(STDIN_FILENO, "stdin", most_streamed_bytes);
    return *flags_.prompt;
  }

  json of_text(const std::string& text) const {
    const tokenizer& tokens = words_.tokenizer_for("tokenize");
    const special_tokens special = flags_.parse_special ? special_tokens::parsed : special_tokens::spelled_out;
    return described(flags_.no_special ? tokens.encode(text, false, special) : tokens.encode(text, special));
  }

  json of_ids(const std::vector<token_id>& ids, std::string_view where) const {
    const tokenizer& tokens = words_.tokenizer_for("tokenize");
    for (const token_id id : ids)
      if (id >= tokens.size())
        throw error(where, "", "token ids below the tokenizer's " + std::to_string(tokens.size()), std::to_string(id));
    return described(ids);
  }

  /// Returns the rendered text, and its ids if the model has a tokenizer. Throws `error` if the tokenizer cannot be used.
  json of_chat(const chat_request& request) {
    if (!chat_) chat_.emplace([&] { return std::optional(words_.chat_for("messages")); });
    const rendered_chat chat = chat_->get()->render(request);
    json result = json::object();
    if (words_.tokens().fault() || words_.tokens().get())
      result = described(words_.tokenizer_for("tokenize").encode(chat.runs(), chat.template_words()));
    result["rendered"] = chat.text();
    return result;
  }

  json described(const std::vector<token_id>& ids) const {
    const tokenizer& tokens = words_.tokenizer_for("tokenize");
    json pieces = json::array();
    for (const token_id id : ids) pieces.push_back(tokens.piece(id));
    return {{"ids", ids},
            {"pieces", std::move(pieces)},
            {"text", tokens.decode(ids, special_text::written)},
            {"text_plain", tokens.decode(ids, special_text::left_out)}};
  }

  static std::string text_of(const json& object, bool ascii) { return object.dump(-1, ' ', ascii, json::error_handler_t::replace); }
  /// Returns one line of ASCII, because some programs read characters such as U+2028 as line breaks.
  static std::string line_of(const json& object) { return text_of(object, true); }

  void print(const json& result) const {
    if (flags_.json)
      std::cout << text_of(result, false) << '\n';
    else if (!result.contains("ids"))
      std::cout << result["rendered"].get_ref<const std::string&>();
    else
      for (std::size_t i = 0; i < result["ids"].size(); ++i)
        std::cout << result["ids"][i] << '\t' << one_line(result["pieces"][i].get_ref<const std::string&>()) << '\n';
  }

  /// Prints one JSON object for each line of the requests, with the error if the line cannot be answered. Skips empty lines. After the last
  /// line, throws `error` if there was such a line.
  int answer_requests() {
    line_reader lines(flags_.requests, longest_json_line);
    std::size_t asked = 0, refused = 0;
    for (bool more = true; more;) {
      std::string out;
      try {
        const auto line = lines.next();
        more = line.has_value();
        if (!line || line->find_first_not_of(" \t\r") == line->npos) continue;
        out = line_of(answer(*line, lines.name(), "line " + std::to_string(lines.number())));
      } catch (const chat_refused& refusal) {
        ++refused;
        out = line_of({{"error", refusal.message()}});  // a template's message is passed on without the file's name and the line
      } catch (const error& fault) {
        if (fault.code() == error_code::io || fault.code() == error_code::no_memory) throw;
        ++refused;
        out = line_of({{"error", fault.what()}});
      }
      ++asked;
      std::cout << out << std::endl;
    }
    if (refused > 0)
      throw error(lines.name(), "", "requests that can be answered",
                  std::to_string(refused) + " of " + std::to_string(asked) + " that cannot");
    return 0;
  }

  json answer(const std::string& line, const std::string& file, const std::string& where) {
    const json_value request = json_value::parse(line, file, longest_json_line, where);
    if (request.has("messages")) return of_chat(chat_request::parse(line, file, where));
    if (request.has("ids")) {
      request.allow_only({"ids"});
      std::vector<token_id> ids;
      for (const json_value& id : request.at("ids").items())
        ids.push_back(static_cast<token_id>(id.whole_number(0, std::numeric_limits<token_id>::max())));
      return of_ids(ids, file + ": " + where + ": ids");
    }
    if (!request.has("text")) throw error(file, where, "one of the keys text, ids and messages", "none");
    request.allow_only({"text"});
    return of_text(request.at("text").string());
  }

  const tokenize_flags& flags_;
  model_words words_;
  std::optional<found_once<chat_words>> chat_;  // empty before the first chat
};

}  // namespace

int tokenize(const tokenize_flags& flags) { return tokenizing(flags).run(); }

}  // namespace program
}  // namespace lazyprune
