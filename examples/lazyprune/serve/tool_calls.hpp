// SPDX-License-Identifier: MIT
// Finds calls of tools in the text of an answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lazyprune {
namespace program {

struct tool_call {
  std::string name;
  std::string arguments;  // a JSON object
  friend bool operator==(const tool_call&, const tool_call&) = default;
};

/// An answer, split into its text and its calls.
struct answer_with_calls {
  std::string content;  // all of the text if it has no calls; else the texts before, between and after them, with a line break between two
  std::vector<tool_call> calls{};
};

/// Reads the two forms in which models write calls. Hermes and Qwen write {"name": ..., "arguments": {...}} between <tool_call> and
/// </tool_call>. Llama 3 writes an answer that is nothing but {"name": ..., "parameters": {...}}. A text in which any call is malformed is
/// an answer without calls.
answer_with_calls read_tool_calls(std::string_view text);

}  // namespace program
}  // namespace lazyprune
