// SPDX-License-Identifier: MIT
#include "serve/completion_answer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "serve/scheduler.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/byte_piece.hpp>
#include <lazyprune/text/tokenizer/byte_alphabet.hpp>

namespace lazyprune {
namespace program {

namespace {

using json = nlohmann::ordered_json;

}  // namespace

json error_json(std::string_view message, std::string_view type, const std::optional<std::string>& param,
                const std::optional<std::string>& code) {
  json inside{{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (param) inside["param"] = *param;
  if (code) inside["code"] = *code;
  return {{"error", std::move(inside)}};
}

fault_answer answer_to(const std::exception& fault) {
  if (dynamic_cast<const deadline_passed*>(&fault)) return {504, error_json(fault.what(), "server_error", {}, "deadline_passed")};
  const auto* const known = dynamic_cast<const error*>(&fault);
  if (!known) return {500, error_json(fault.what(), "server_error")};
  const std::optional<std::string> param = known->place().empty() ? std::nullopt : std::optional(known->place());
  // The batch finds wrong token ids. All other errors about what a client sent name the request.
  const bool of_client = known->file() == "request" || known->file() == "tokens";
  if (!of_client && known->code() != error_code::no_memory) return {500, error_json(fault.what(), "server_error")};
  switch (known->code()) {
    case error_code::bad_input:
      return {400, error_json(fault.what(), "invalid_request_error", param, "invalid_value")};
    case error_code::unsupported:
      return {400, error_json(fault.what(), "invalid_request_error", param, "unsupported_parameter")};
    case error_code::no_room:
      return {400, error_json(fault.what(), "invalid_request_error", param, "context_length_exceeded")};
    case error_code::no_memory:
      return {503, error_json(fault.what(), "server_error", param, "not_enough_memory")};
    default:
      return {500, error_json(fault.what(), "server_error", param)};
  }
}

std::string dumped(const json& answer) { return answer.dump(-1, ' ', false, json::error_handler_t::replace); }

completion_answer::choice::choice(const completion_answer& of, std::size_t n)
    : index(n), decoder(of.after_prompt_), text(of.request_.stops, [this](std::string_view piece) { unsent += piece; }) {}

completion_answer::completion_answer(const completion_request& request, bool chat, std::string id, std::string model,
                                     std::span<const token_id> prompt, const tokenizer& tokens, http_reply reply)
    : request_(request),
      chat_(chat),
      id_(std::move(id)),
      model_(std::move(model)),
      created_(std::time(nullptr)),
      prompt_(prompt.begin(), prompt.end()),
      tokens_(tokens),
      after_prompt_(tokens),
      reply_(std::move(reply)) {
  for (const token_id token : prompt)
    if (token < tokens.size()) after_prompt_.push(token);
  after_prompt_.begin_answer();
  for (std::size_t i = 0; i < request_.choices; ++i) choices_.emplace_back(*this, i);
}

void completion_answer::listen(std::size_t which, generation_options& options) {
  choice& into = choices_[which];
  if (request_.top_logprobs)
    options.on_logits = [&into](std::span<const float> logits) { into.logits.assign(logits.begin(), logits.end()); };
  options.on_token = [this, &into](token_id id) { return take(into, id); };
  if (!request_.show_kept || which > 0) return;  // each choice prunes the prompt alike
  options.on_step = [this](const any_session& session) {
    // The first call is after the prefill. The session also has the frontiers of tokens that came from the cache.
    for (auto t = static_cast<position>(layers_.size()); t < prompt_.size(); ++t) layers_.push_back(session.tokens().frontier(t));
  };
}

bool completion_answer::take(choice& into, token_id id) {
  if (over_) return false;  // another choice has failed
  if (request_.top_logprobs) note_logprob(into, id);
  const bool goes_on = into.text.feed(id < tokens_.size() ? into.decoder.push(id) : "");
  if (request_.stream && request_.tools.empty() && !into.unsent.empty()) send_text(into);  // only the whole text shows whether it has calls
  return goes_on;
}

/// The bytes of a token inside of an answer. They may be a part of a character.
std::string completion_answer::bytes_of(token_id id) const {
  if (id >= tokens_.size()) return "";
  const std::string_view piece = tokens_.piece(id);
  if (tokens_.is_special(id)) return std::string(piece);
  token_decoder decoder = after_prompt_;
  std::string text = decoder.push(id);
  text += decoder.flush();
  if (text.find("\xef\xbf\xbd") == text.npos) return text;
  // The decoder writes U+FFFD for a part of a character. Only the piece has its bytes.
  if (const auto byte = byte_of_piece(piece, hex_letters::both)) return {static_cast<char>(*byte)};
  return from_byte_alphabet(piece).value_or(text);
}

void completion_answer::note_logprob(choice& into, token_id id) {
  const std::span<const float> logits = into.logits;
  const double total = log_sum_exp(logits);
  const auto about = [&](token_id token) {
    const std::string own = bytes_of(token);
    json bytes = json::array();
    for (const char c : own) bytes.push_back(static_cast<unsigned char>(c));
    const std::string text = utf8_end(own) == own.size() ? own : "bytes:" + printable(own);  // as OpenAI's API spells parts of characters
    return json{{"token", text}, {"logprob", logits[token] - total}, {"bytes", std::move(bytes)}};
  };
  std::vector<token_id> order(logits.size());
  std::iota(order.begin(), order.end(), token_id{0});
  const std::size_t count = std::min(*request_.top_logprobs, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](token_id a, token_id b) { return std::pair(-logits[a], a) < std::pair(-logits[b], b); });
  json entry = about(id);
  json top = json::array();
  for (std::size_t i = 0; i < count; ++i) top.push_back(about(order[i]));
  entry["top_logprobs"] = std::move(top);
  into.logprobs.push_back(std::move(entry));
}

/// Takes the log-probabilities of a choice's tokens, in the form of the API that was called.
json completion_answer::logprobs_of(choice& from) {
  if (!request_.top_logprobs) return nullptr;
  const json entries = std::exchange(from.logprobs, json::array());
  if (chat_) return {{"content", entries}};
  json tokens = json::array(), values = json::array(), tops = json::array();
  for (const json& each : entries) {
    tokens.push_back(each["token"]);
    values.push_back(each["logprob"]);
    json top = json::object();
    for (const json& likely : each["top_logprobs"]) top.emplace(likely["token"].get<std::string>(), json(likely["logprob"]));
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)}, {"token_logprobs", std::move(values)}, {"top_logprobs", std::move(tops)}};
}

json completion_answer::envelope(std::string_view kind, json choices) const {
  return {{"id", id_}, {"object", kind}, {"created", created_}, {"model", model_}, {"choices", std::move(choices)}};
}

/// One choice of an event, or of the whole answer. `content`: its text, or the object that has it.
json completion_answer::part(const choice& of, json content, json logprobs) const {
  json result{{"index", of.index}};
  result[!chat_ ? "text" : request_.stream ? "delta" : "message"] = std::move(content);
  result["logprobs"] = std::move(logprobs);
  result["finish_reason"] = of.reason.empty() ? json() : json(of.reason);
  return result;
}

void completion_answer::begin_stream() {
  if (std::exchange(begun_, true)) return;
  reply_.begin_events();
  if (!chat_) return;
  for (const choice& each : choices_) {
    json role = part(each, {{"role", "assistant"}, {"content", ""}}, nullptr);
    role["finish_reason"] = nullptr;  // even if the choice has ended, because its last event has the reason
    send_event(json::array({std::move(role)}));
  }
}

void completion_answer::send_event(json choices, json used) {
  json event = envelope(chat_ ? "chat.completion.chunk" : "text_completion", std::move(choices));
  if (request_.stream_usage) event["usage"] = std::move(used);
  reply_.event(dumped(event));
}

void completion_answer::add_calls(const choice& from, json& to) const {
  if (from.calls.empty()) return;
  to["tool_calls"] = json::array();
  for (std::size_t i = 0; i < from.calls.size(); ++i) {
    json call = json::object();
    if (request_.stream) call["index"] = i;
    call["id"] = "call-" + id_ + '-' + std::to_string(from.index) + '-' + std::to_string(i);
    call["type"] = "function";
    call["function"] = {{"name", from.calls[i].name}, {"arguments", from.calls[i].arguments}};
    to["tool_calls"].push_back(std::move(call));
  }
}

void completion_answer::send_text(choice& from) {
  begin_stream();
  json content = std::exchange(from.unsent, {});
  json logprobs = logprobs_of(from);
  if (chat_) content = json{{"content", std::move(content)}};
  if (chat_ && !from.reason.empty() && content["content"].get_ref<const std::string&>().empty()) content = json::object();
  if (chat_) add_calls(from, content);
  send_event(json::array({part(from, std::move(content), std::move(logprobs))}));
}

void completion_answer::ended(std::size_t which, const ended_answer& answer) {
  choice& of = choices_[which];
  const bool stopped = !of.text.feed(of.decoder.flush());  // a stop text may be in the bytes that the decoder has held back
  of.text.flush();
  of.reason = answer.result.reason == finish_reason::length && !stopped ? "length" : "stop";
  if (!request_.tools.empty()) {
    answer_with_calls parsed = read_tool_calls(of.text.text());
    of.unsent = std::move(parsed.content);
    of.calls = std::move(parsed.calls);
    if (!of.calls.empty()) of.reason = "tool_calls";
  }
  results_.push_back(answer);
  if (request_.stream) send_text(of);
  if (results_.size() == choices_.size()) finish();
}

void completion_answer::failed(std::exception_ptr fault) {
  if (std::exchange(over_, true)) return;
  fault_answer answer{500, error_json("an unknown fault", "server_error")};
  try {
    std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    answer = {503, error_json("there is not enough memory", "server_error", {}, "not_enough_memory")};
  } catch (const std::exception& known) {
    answer = answer_to(known);
  } catch (...) {
  }
  if (log_) log_({{"status", answer.status}, {"code", answer.body["error"]["code"]}});
  if (!begun_) return reply_.send(answer.status, "application/json", dumped(answer.body));
  reply_.event(dumped(answer.body));
  reply_.end_events();
}

std::vector<std::string> completion_answer::texts() const {
  std::vector<std::string> all;
  for (const choice& each : choices_) all.push_back(each.text.text());
  return all;
}

json completion_answer::usage() const {
  std::size_t written = 0, cached = prompt_.size(), rows = 0, dense_rows = 0, revived = 0;
  double share = 0, first = 0;
  for (const ended_answer& answer : results_) {
    const generation& each = answer.result;
    cached = std::min(cached, answer.cached_tokens);
    written += each.tokens.size();
    rows += each.cost.rows;
    dense_rows += each.cost.dense_rows;
    revived += each.cost.revived;
    share += each.share_prompt / static_cast<double>(results_.size());
    first = std::max(first, each.prefill_seconds);
  }
  json pruning{
      {"rows", rows}, {"dense_rows", dense_rows}, {"share_of_prompt", share}, {"revived", revived}, {"seconds_to_first_token", first}};
  if (!layers_.empty()) pruning["kept"] = kept();
  return {{"prompt_tokens", prompt_.size()},
          {"completion_tokens", written},
          {"total_tokens", prompt_.size() + written},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"pruning", std::move(pruning)}};
}

/// The text of each token of the prompt, and the number of layers that computed it. The texts, joined, are the prompt.
json completion_answer::kept() const {
  json texts = json::array();
  token_decoder decoder(tokens_, special_text::written);
  for (const token_id token : prompt_) texts.push_back(token < tokens_.size() ? decoder.push(token) : "");
  texts.back().get_ref<std::string&>() += decoder.flush();
  return {{"texts", std::move(texts)}, {"layers", layers_}};
}

void completion_answer::finish() {
  if (over_) return;
  if (log_) {
    json used = usage(), reasons = json::array();
    used["pruning"].erase("kept");  // it has texts
    for (const choice& each : choices_) reasons.push_back(each.reason);
    log_({{"status", 200}, {"finish_reasons", std::move(reasons)}, {"usage", std::move(used)}});
  }
  if (request_.stream) {
    if (request_.stream_usage) send_event(json::array(), usage());
    reply_.event("[DONE]");
    reply_.end_events();
    over_ = true;
    return;
  }
  json parts = json::array();
  for (choice& each : choices_) {
    json content = each.calls.empty() ? json(each.text.text()) : each.unsent.empty() ? json() : json(each.unsent);
    if (chat_) {
      content = {{"role", "assistant"}, {"content", std::move(content)}};
      add_calls(each, content);
    }
    json logprobs = logprobs_of(each);
    parts.push_back(part(each, std::move(content), std::move(logprobs)));
  }
  json answer = envelope(chat_ ? "chat.completion" : "text_completion", std::move(parts));
  answer["usage"] = usage();
  reply_.send(200, "application/json", dumped(answer));
  over_ = true;  // if a line above throws, the client hears of the fault
}

}  // namespace program
}  // namespace lazyprune
