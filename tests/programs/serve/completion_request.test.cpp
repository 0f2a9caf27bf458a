// SPDX-License-Identifier: MIT
#include "serve/completion_request.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <fault.hpp>

using namespace lazyprune;
using namespace lazyprune::program;
using lazyprune_test::error_of;

namespace {

completion_request chat_with(const std::string& more) {
  return read_completion_request(R"({"messages":[{"role":"user","content":"hello"}])" + more + "}", true);
}

completion_request text_with(const std::string& more) { return read_completion_request(R"({"prompt":"once")" + more + "}", false); }

}  // namespace

TEST_CASE("a request of the fewest fields has the API's defaults") {
  const completion_request chat = chat_with("");
  CHECK(chat.messages == R"([{"role":"user","content":"hello"}])");
  CHECK(!chat.predict);
  CHECK(chat.sampler == sampling{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0});
  CHECK(chat.choices == 1);
  CHECK(!chat.stream);
  CHECK(!chat.top_logprobs);
  CHECK(!chat.pruning);
  CHECK(!chat.dense);
  const completion_request text = text_with("");
  CHECK(text.prompt == "once");
  CHECK(!text.predict);
}

TEST_CASE("all fields that are supported arrive") {
  const completion_request chat = chat_with(
      R"(,"model":"any","max_tokens":3,"temperature":0.5,"top_p":0.9,"min_p":0.1,"top_k":7,"seed":18446744073709551615,"n":2,)"
      R"("stop":["a","bc"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":4,)"
      R"("pruning":{"policy":"lazyllm","stages":"3:0.5","least_tokens":9,"decode":"dense"},"user":"somebody","store":null,"tools":null)");
  CHECK(chat.model == "any");
  CHECK(chat.predict == 3);
  CHECK(chat.sampler == sampling{.temperature = 0.5, .top_k = 7, .top_p = 0.9, .min_p = 0.1});
  CHECK(chat.seed == 18446744073709551615u);
  CHECK(chat.choices == 2);
  CHECK(chat.stops == std::vector<std::string>{"a", "bc"});
  CHECK(chat.stream);
  CHECK(chat.stream_usage);
  CHECK(chat.top_logprobs == 4);
  REQUIRE(chat.pruning);
  CHECK(chat.pruning->preset == "lazyllm");
  CHECK(chat.pruning->stages == "3:0.5");
  CHECK(chat.pruning->least_tokens == 9);
  CHECK(chat.pruning->decode == "dense");
  CHECK(!chat.show_kept);
  CHECK(!chat.continues);
  CHECK(chat_with(R"(,"pruning":{"continue":true})").continues);
  CHECK(chat_with(R"(,"pruning":{"stages":"3:0.5","show_kept":true})").show_kept);
  CHECK(chat_with(R"(,"pruning":{"show_kept":true})").show_kept);
  CHECK(!chat_with(R"(,"pruning":{"show_kept":true})").pruning);  // the server's policy
  CHECK(chat_with(R"(,"pruning":false)").dense);
  CHECK(!chat_with(R"(,"pruning":true)").dense);
  CHECK(chat_with(R"(,"max_tokens":3,"max_completion_tokens":5)").predict == 5);
  CHECK(text_with(R"(,"stop":"x","logprobs":2)").stops == std::vector<std::string>{"x"});
  CHECK(text_with(R"(,"logprobs":2)").top_logprobs == 2);
  CHECK(read_completion_request(R"({"prompt":[1,2,3]})", false).ids == std::vector<token_id>{1, 2, 3});
  CHECK(read_completion_request(R"({"prompt":["one"]})", false).prompt == "one");
}

TEST_CASE("the text parts of a message become one text") {
  const completion_request chat = read_completion_request(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null}]})",
      true);
  CHECK(chat.messages == R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":null}])");
}

TEST_CASE("tools go to the template, and the arguments of earlier calls become objects") {
  const std::string tools = R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])";
  CHECK(chat_with(R"(,"tools":)" + tools).tools == tools);
  CHECK(chat_with(R"(,"tool_choice":"auto","tools":)" + tools).tools == tools);
  CHECK(chat_with(R"(,"tool_choice":"none","tools":)" + tools).tools.empty());
  const auto after_call = [](const std::string& arguments) {
    return read_completion_request(
               R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":)"
               R"({"name":"weather","arguments":)" +
                   arguments + R"(}}]},{"role":"tool","tool_call_id":"1","content":"rain"}]})",
               true)
        .messages;
  };
  CHECK(after_call(R"("{\"city\":\"Lisbon\"}")") == after_call(R"({"city":"Lisbon"})"));
  CHECK(after_call("{}").find(R"("arguments":{})") != std::string::npos);
  CHECK(error_of([&] { after_call(R"("not JSON")"); }).where == "request: byte 1");
  CHECK(error_of([&] { after_call("3"); }).where == "request: messages[0].tool_calls");
}

TEST_CASE("a field that is wrong or not supported is an error that names the field") {
  using wrong = std::pair<std::string, std::string>;
  for (const wrong& each : std::vector<wrong>{{R"(,"temperature":3)", "temperature"},
                                              {R"(,"temperature":"warm")", "temperature"},
                                              {R"(,"max_tokens":0)", "max_tokens"},
                                              {R"(,"max_tokens":1.5)", "max_tokens"},
                                              {R"(,"max_tokens":-1)", "max_tokens"},
                                              {R"(,"n":17)", "n"},
                                              {R"(,"stop":"")", "stop"},
                                              {R"(,"stop":[3])", "stop"},
                                              {R"(,"stream":1)", "stream"},
                                              {R"(,"stream_options":{})", "stream_options"},
                                              {R"(,"stream":true,"stream_options":{"x":1})", "stream_options.x"},
                                              {R"(,"top_logprobs":2)", "top_logprobs"},
                                              {R"(,"pruning":3)", "pruning"},
                                              {R"(,"pruning":{"share":0.5})", "pruning.share"},
                                              {R"(,"pruning":{"show_kept":1})", "pruning.show_kept"},
                                              {R"(,"pruning":{"continue":"yes"})", "pruning.continue"},
                                              {R"(,"model":3)", "model"},
                                              {R"(,"tools":[{"type":"function"}])", "tools"},
                                              {R"(,"tools":[{"type":"other","function":{"name":"f"}}])", "tools"},
                                              {R"(,"seed":1.5)", "seed"}}) {
    CAPTURE(each.first);
    const auto fault = error_of([&] { chat_with(each.first); });
    CHECK(fault.where == "request: " + each.second);
    CHECK((fault.code == error_code::bad_input || fault.code == error_code::unsupported));
  }
  for (const wrong& each : std::vector<wrong>{{R"(,"frequency_penalty":0.5)", "frequency_penalty"},
                                              {R"(,"tool_choice":"required")", "tool_choice"},
                                              {R"(,"response_format":{"type":"json_object"})", "response_format"},
                                              {R"(,"logit_bias":{"3":1})", "logit_bias"},
                                              {R"(,"no_such_field":1)", "no_such_field"}}) {
    CAPTURE(each.first);
    const auto fault = error_of([&] { chat_with(each.first); });
    CHECK(fault.where == "request: " + each.second);
    CHECK(fault.code == error_code::unsupported);
  }
  CHECK_NOTHROW(
      chat_with(R"(,"frequency_penalty":0,"presence_penalty":0.0,"response_format":{"type":"text"},"tools":[],"tool_choice":"none")"));
  CHECK(error_of([] { text_with(R"(,"echo":true)"); }).where == "request: echo");
}

TEST_CASE("a body without a prompt or messages, and one that is not JSON, are errors") {
  const auto where = [](const std::string& body, bool chat) { return error_of([&] { read_completion_request(body, chat); }).where; };
  CHECK(where("{", true) == "request: byte 1");
  CHECK(where("", true) == "request: byte 0");
  CHECK(where("[]", true) == "request");
  CHECK(where("{}", true) == "request: messages");
  CHECK(where(R"({"messages":[]})", true) == "request: messages");
  CHECK(where(R"({"messages":[{"content":"x"}]})", true) == "request: messages[0].role");
  CHECK(where(R"({"messages":[3]})", true) == "request: messages[0]");
  CHECK(where(R"({"messages":[{"role":"user","content":3}]})", true) == "request: messages[0].content");
  CHECK(where(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", true) == "request: messages[0].content");
  CHECK(where("{}", false) == "request: prompt");
  CHECK(where(R"({"prompt":["a","b"]})", false) == "request: prompt");
  CHECK(where(R"({"prompt":[1,-2]})", false) == "request: prompt");
  CHECK(where(R"({"prompt":[]})", false) == "request: prompt");
  CHECK(where(R"({"messages":)" + std::string(500000, '[') + std::string(500000, ']') + "}", true) == "request");
}
