// SPDX-License-Identifier: MIT
// The input is the body of a request to `lazyprune serve`. It is read as a chat and as a completion, and as an answer with tool calls.
#include <serve/completion_request.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include <serve/tool_calls.hpp>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune::program;
  using namespace lazyprune_test;
  const std::string_view body = text_of({data, size});
  const bounded_work bounds(size, {.bytes = 256});
  for (const bool chat : {false, true})
    unless_refused([&] {
      const completion_request request = read_completion_request(body, chat);
      must(request.choices > 0 && request.sampler.temperature >= 0, "the numbers are in their ranges");
      must(!chat || nlohmann::json::accept(request.messages), "the messages are JSON");
    });
  const answer_with_calls answer = read_tool_calls(body);
  must(!answer.calls.empty() || answer.content == body, "an answer without calls is the whole text");
  for (const tool_call& call : answer.calls) must(nlohmann::json::accept(call.arguments), "the arguments of a call are JSON");
  return 0;
}
