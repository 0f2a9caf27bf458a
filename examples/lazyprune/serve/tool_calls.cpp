// SPDX-License-Identifier: MIT
#include "serve/tool_calls.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "serve/client_json.hpp"

#include <lazyprune/core/error.hpp>

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

std::string_view without_spaces(std::string_view text) {
  constexpr const char* space = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

std::optional<tool_call> read_call(std::string_view text) {
  json call;
  try {
    call = read_client_json(text);
  } catch (const error&) {
    return std::nullopt;  // a text
  }
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return std::nullopt;
  for (const char* const key : {"arguments", "parameters"})
    if (call.contains(key) && call[key].is_object() && call.size() == 2)
      return tool_call{call["name"].get<std::string>(), call[key].dump(-1, ' ', false, json::error_handler_t::replace)};
  return std::nullopt;
}

}  // namespace

answer_with_calls read_tool_calls(std::string_view text) {
  constexpr std::string_view begin = "<tool_call>", end = "</tool_call>";
  const answer_with_calls plain{std::string(text)};
  std::size_t at = text.find(begin);
  if (at == text.npos) {
    const auto call = read_call(without_spaces(text));
    return call ? answer_with_calls{"", {*call}} : plain;
  }
  answer_with_calls answer;
  const auto add_content = [&](std::string_view stretch) {
    stretch = without_spaces(stretch);
    if (!stretch.empty() && !answer.content.empty()) answer.content += '\n';
    answer.content += stretch;
  };
  add_content(text.substr(0, at));
  while (at != text.npos) {
    const std::size_t from = at + begin.size(), to = std::min(text.find(end, from), text.size());
    const auto call = read_call(without_spaces(text.substr(from, to - from)));
    if (!call) return plain;
    answer.calls.push_back(*call);
    const std::size_t after = std::min(to + end.size(), text.size());  // the last call may lack its end, which may be a stop token
    at = text.find(begin, after);                                      // an argument may have such a text, too
    add_content(text.substr(after, at - after));
  }
  return answer;
}

}  // namespace program
}  // namespace lazyprune
