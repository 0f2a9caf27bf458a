// SPDX-License-Identifier: MIT
#include "serve/completion_answer.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <new>
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

TEST_CASE("an answer that a stop text ends in its last bytes has the reason \"stop\"") {
  const opened_model model(model_flags{.path = LAZYPRUNE_SOURCE_DIR "/examples/pocket/model"});
  const model_words words(model);
  const tokenizer& tokens = words.tokenizer_for("a test");
  const std::vector<token_id> prompt = tokens.encode("the council"), smile = tokens.encode("\xf0\x9f\x98\x80", false);
  REQUIRE(smile.size() > 3);
  const token_id part_of_character = smile[smile.size() - 4];  // the decoder waits for the other bytes

  std::promise<http_reply> replies;
  http_options options;
  options.port = 0;
  http_server server(options, [&](http_request, http_reply reply) { replies.set_value(std::move(reply)); });
  std::thread serves([&] { server.run(std::chrono::seconds(1)); });
  lazyprune_test::http_client client(server.port());
  client.request("POST", "/");
  completion_request request;
  request.stops = {"\xef\xbf\xbd"};  // such bytes are written as this character
  {
    completion_answer answer(request, false, "an id", "a model", prompt, tokens, replies.get_future().get());
    generation_options of_choice;
    answer.listen(0, of_choice);
    CHECK(of_choice.on_token(part_of_character));
    ended_answer end{};
    end.result.tokens = {part_of_character};
    end.result.reason = finish_reason::length;
    answer.ended(0, end);
  }
  const nlohmann::json got = nlohmann::json::parse(client.read().body);
  CHECK(got["choices"][0]["text"] == "");
  CHECK(got["choices"][0]["finish_reason"] == "stop");
  server.drain();
  serves.join();
}
