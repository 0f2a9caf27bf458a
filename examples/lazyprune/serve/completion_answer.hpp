// SPDX-License-Identifier: MIT
// Turns the tokens of an answer into the JSON of OpenAI's API: one object at the end, or server-sent events while it is generated.
#pragma once

#include <cstddef>
#include <ctime>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/engine.hpp"
#include "serve/completion_request.hpp"
#include "serve/http_server.hpp"
#include "serve/tool_calls.hpp"
#include "terminal/text_stream.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {

/// The JSON of an error, as OpenAI's API writes it. `param`: the field that is wrong, if one is.
nlohmann::ordered_json error_json(std::string_view message, std::string_view type, const std::optional<std::string>& param = {},
                                  const std::optional<std::string>& code = {});

/// The status and the JSON of a fault.
struct fault_answer {
  unsigned status;
  nlohmann::ordered_json body;
};
fault_answer answer_to(const std::exception& fault);

/// The text of a JSON answer. Bytes that are not UTF-8 become U+FFFD.
std::string dumped(const nlohmann::ordered_json& answer);

/// One request's answer, which has one or several choices. After the constructor, one thread at a time may use it.
class completion_answer {
 public:
  /// The tokenizer must outlive this object. `id` is unique among the server's answers.
  completion_answer(const completion_request& request, bool chat, std::string id, std::string model, std::span<const token_id> prompt,
                    const tokenizer& tokens, http_reply reply);
  completion_answer(const completion_answer&) = delete;
  completion_answer& operator=(const completion_answer&) = delete;

  /// Calls log(fields) when the answer has ended or failed, before the client gets the end. The fields have no texts.
  void log_to(std::function<void(nlohmann::ordered_json)> log) { log_ = std::move(log); }

  /// The texts of the choices so far.
  std::vector<std::string> texts() const;

  /// Sets the callbacks through which this object gets a choice's tokens. This object must outlive the generation.
  void listen(std::size_t choice, generation_options& options);

  void ended(std::size_t choice, const ended_answer& answer);
  void failed(std::exception_ptr fault);

 private:
  struct choice {
    choice(const completion_answer& of, std::size_t n);

    std::size_t index;
    token_decoder decoder;
    text_stream text;
    std::string unsent{};                                               // text that no event has yet
    nlohmann::ordered_json logprobs = nlohmann::ordered_json::array();  // of the tokens of that text; of all tokens without a stream
    std::vector<float> logits{};
    std::vector<tool_call> calls{};  // of an ended choice
    std::string reason{};            // empty until the choice has ended
  };

  bool take(choice& into, token_id id);
  void note_logprob(choice& into, token_id id);
  std::string bytes_of(token_id id) const;
  nlohmann::ordered_json logprobs_of(choice& from);
  void add_calls(const choice& from, nlohmann::ordered_json& to) const;
  void begin_stream();
  void send_text(choice& from);
  void send_event(nlohmann::ordered_json choices, nlohmann::ordered_json used = nullptr);
  nlohmann::ordered_json part(const choice& of, nlohmann::ordered_json delta, nlohmann::ordered_json logprobs) const;
  nlohmann::ordered_json envelope(std::string_view kind, nlohmann::ordered_json choices) const;
  nlohmann::ordered_json usage() const;
  nlohmann::ordered_json kept() const;
  void finish();

  completion_request request_;
  bool chat_;
  std::string id_, model_;
  std::time_t created_;
  std::vector<token_id> prompt_;
  const tokenizer& tokens_;
  token_decoder after_prompt_;
  http_reply reply_;
  std::deque<choice> choices_;
  std::vector<ended_answer> results_;  // of the choices that have ended
  std::vector<layer_id> layers_;       // (prompt): how many layers computed each token by the end of the prefill; empty: not asked for
  std::function<void(nlohmann::ordered_json)> log_{};
  bool begun_ = false, over_ = false;
};

}  // namespace program
}  // namespace lazyprune
