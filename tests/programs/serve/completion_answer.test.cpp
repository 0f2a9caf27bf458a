// SPDX-License-Identifier: MIT
#include "serve/completion_answer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/model_choice.hpp"
#include "programs/serve/http_client.hpp"
#include "serve/http_server.hpp"
#include "serve/scheduler.hpp"
#include "words/model_words.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/text/tokenizer.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("only errors about what a client sent have the status 400") {
  const auto status = [](const std::exception& fault) { return answer_to(fault).status; };
  for (const error_code code : {error_code::bad_input, error_code::unsupported, error_code::no_room}) {
    CAPTURE(name_of(code));
    CHECK(status(error("request", "n", "a number", "a text", code)) == 400);
    CHECK(status(error("tokens", "token id", "below 7", "8", code)) == 400);
    for (const char* const file : {"session", "sequence", "chat template", "sampler", ""})
      CHECK(status(error(file, "logits", "finite numbers", "another one", code)) == 500);
  }
  CHECK(status(error("request", "", "less memory", "more", error_code::no_memory)) == 503);
  CHECK(status(error("workspace", "", "less memory", "more", error_code::no_memory)) == 503);
  CHECK(status(deadline_passed()) == 504);
  CHECK(status(std::runtime_error("another fault")) == 500);
  const nlohmann::ordered_json inside = answer_to(error("request", "n", "a number", "a text")).body["error"];
  CHECK(inside["param"] == "n");
  CHECK(inside["code"] == "invalid_value");
  CHECK(answer_to(error("session", "logits", "finite numbers")).body["error"]["type"] == "server_error");
}

namespace {

const tokenizer& bundled_tokens() {
  static const opened_model model(model_flags{.path = LAZYPRUNE_SOURCE_DIR "/examples/pocket/model"});
  static const model_words words(model);
  return words.tokenizer_for("a test");
}

/// A token that is the first byte of a character of four bytes. The decoder waits for the others.
token_id part_of_character() {
  const std::vector<token_id> smile = bundled_tokens().encode("\xf0\x9f\x98\x80", false);
  REQUIRE(smile.size() > 3);
  return smile[smile.size() - 4];
}

/// Returns what the client gets if `generate` makes the answer.
template <class Generate>
std::string body_of_answer(const completion_request& request, bool chat, Generate generate) {
  const std::vector<token_id> prompt = bundled_tokens().encode("the council");
  std::promise<http_reply> replies;
  http_options options;
  options.port = 0;
  http_server server(options, [&](http_request, http_reply reply) { replies.set_value(std::move(reply)); });
  std::thread serves([&] { server.run(std::chrono::seconds(1)); });
  lazyprune_test::http_client client(server.port());
  client.request("POST", "/");
  {
    completion_answer answer(request, chat, "an id", "a model", prompt, bundled_tokens(), replies.get_future().get());
    generate(answer);
  }
  std::string body = client.read().body;
  server.drain();
  serves.join();
  return body;
}

/// Ends a choice after these tokens.
void generate(completion_answer& answer, const std::vector<token_id>& tokens, std::size_t choice = 0) {
  generation_options of_choice;
  answer.listen(choice, of_choice);
  for (const token_id token : tokens) CHECK(of_choice.on_token(token));
  ended_answer end{};
  end.result.tokens = tokens;
  end.result.reason = finish_reason::length;
  answer.ended(choice, end);
}

}  // namespace

TEST_CASE("an answer that a stop text ends in its last bytes has the reason \"stop\"") {
  completion_request request;
  request.stops = {"\xef\xbf\xbd"};  // such bytes are written as this character
  const auto got =
      nlohmann::json::parse(body_of_answer(request, false, [](completion_answer& answer) { generate(answer, {part_of_character()}); }));
  CHECK(got["choices"][0]["text"] == "");
  CHECK(got["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("only the last event of a choice has a reason, even if all of its text comes at the end") {
  const std::string tools = R"([{"type": "function", "function": {"name": "find"}}])";
  for (const std::string& with : {std::string(), tools})
    for (const bool at_end : {false, true}) {
      CAPTURE(with);
      CAPTURE(at_end);
      completion_request request;
      request.stream = true;
      request.choices = 2;
      request.tools = with;
      const std::vector<token_id> tokens = at_end ? std::vector{part_of_character()} : bundled_tokens().encode("the old quarries", false);
      std::istringstream events(body_of_answer(request, true, [&](completion_answer& answer) {
        for (std::size_t choice = 0; choice < 2; ++choice) generate(answer, tokens, choice);
      }));
      std::vector<std::vector<bool>> has_reason(2);
      for (std::string line; std::getline(events, line);) {
        if (!line.starts_with("data: {")) continue;
        const auto choice = nlohmann::json::parse(line.substr(6))["choices"][0];
        has_reason[choice["index"]].push_back(!choice["finish_reason"].is_null());
      }
      for (const std::vector<bool>& each : has_reason) {
        REQUIRE(each.size() >= 2);
        CHECK(std::ranges::count(each, true) == 1);
        CHECK(each.back());
      }
    }
}

TEST_CASE("log-probabilities name the bytes of tokens that are parts of characters") {
  const std::vector<token_id> smile = bundled_tokens().encode("\xf0\x9f\x98\x80", false);
  const std::vector<token_id> tokens(smile.end() - 4, smile.end());
  completion_request request;
  request.top_logprobs = 3;
  const auto logprobs_of = [&](bool chat) {
    const std::string body = body_of_answer(request, chat, [&](completion_answer& answer) {
      generation_options of_choice;
      answer.listen(0, of_choice);
      std::vector<float> logits(bundled_tokens().size(), 0.0f);
      for (std::size_t i = 0; i < 4; ++i) logits[tokens[i]] = 9.0f - static_cast<float>(i);
      for (const token_id token : tokens) {
        of_choice.on_logits(logits);
        CHECK(of_choice.on_token(token));
      }
      answer.ended(0, {});
    });
    return nlohmann::json::parse(body)["choices"][0]["logprobs"];
  };
  const auto content = logprobs_of(true)["content"];
  REQUIRE(content.size() == 4);
  std::string joined;
  for (const auto& each : content)
    for (const unsigned byte : each["bytes"]) joined += static_cast<char>(byte);
  CHECK(joined == "\xf0\x9f\x98\x80");
  CHECK(content[0]["token"] == "bytes:\\xf0");

  const auto texts = logprobs_of(false);
  CHECK(texts["tokens"] == nlohmann::json({"bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x80"}));
  for (const auto& top : texts["top_logprobs"]) {
    CHECK(top.size() == 3);
    CHECK(top["bytes:\\xf0"] > top["bytes:\\x9f"]);
    CHECK(top["bytes:\\x9f"] > top["bytes:\\x98"]);
  }
}
