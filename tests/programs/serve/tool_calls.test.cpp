// SPDX-License-Identifier: MIT
#include "serve/tool_calls.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using lazyprune::program::answer_with_calls;
using lazyprune::program::read_tool_calls;
using lazyprune::program::tool_call;

TEST_CASE("calls of Hermes and Qwen, with a text before them") {
  const answer_with_calls answer = read_tool_calls(
      "I look it up.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Lisbon\", \"days\": 2}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>");
  CHECK(answer.content == "I look it up.");
  CHECK(answer.calls == std::vector<tool_call>{{"weather", R"({"city":"Lisbon","days":2})"}, {"time", "{}"}});
  CHECK(read_tool_calls("<tool_call>{\"name\": \"time\", \"arguments\": {}}\n").calls.size() == 1);
}

TEST_CASE("texts between and after calls belong to the content") {
  const std::string call = R"(<tool_call>{"name": "time", "arguments": {}}</tool_call>)";
  const auto content = [](const std::string& text) { return read_tool_calls(text).content; };
  CHECK(content("one\n" + call + "\n two \n" + call + "\nthree.\n") == "one\ntwo\nthree.");
  CHECK(content(call + call + " after") == "after");
  CHECK(content(call + "\nbetween\n" + call) == "between");
  CHECK(content(call + '\n') == "");
  CHECK(read_tool_calls(call + "between" + call).calls.size() == 2);
}

TEST_CASE("an argument may have the text that begins a call") {
  const answer_with_calls answer = read_tool_calls(
      R"(<tool_call>{"name": "write", "arguments": {"text": "<tool_call> begins a call"}}</tool_call><tool_call>{"name": "time", "arguments": {}}</tool_call>)");
  CHECK(answer.calls == std::vector<tool_call>{{"write", R"({"text":"<tool_call> begins a call"})"}, {"time", "{}"}});
  CHECK(read_tool_calls(R"(<tool_call>{"name": "write", "arguments": {"text": "<tool_call>"}})").calls.size() == 1);
}

TEST_CASE("a call of Llama 3 is the whole answer") {
  const answer_with_calls answer = read_tool_calls(" {\"name\": \"weather\", \"parameters\": {\"city\": \"Lisbon\"}}\n");
  CHECK(answer.content.empty());
  CHECK(answer.calls == std::vector<tool_call>{{"weather", R"({"city":"Lisbon"})"}});
}

TEST_CASE("other texts have no calls, and stay as they are") {
  for (const std::string text :
       {"", "hello", "{\"name\": \"x\"}", "{\"name\": 3, \"parameters\": {}}", "{\"name\": \"x\", \"parameters\": 3}",
        "{\"name\": \"x\", \"parameters\": {}, \"more\": 1}", "say {\"name\": \"x\", \"parameters\": {}}",
        "<tool_call>{\"name\": \"x\", \"arguments\": {}}</tool_call><tool_call>{</tool_call>", "<tool_call>",
        "[{\"name\": \"x\", \"parameters\": {}}]"}) {
    CAPTURE(text);
    const answer_with_calls answer = read_tool_calls(text);
    CHECK(answer.calls.empty());
    CHECK(answer.content == text);
  }
}
