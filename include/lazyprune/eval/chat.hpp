// SPDX-License-Identifier: MIT
// The chat formats of the paper's two models, as in LongBench's pred.py. A format has the text around a prompt, and the
// assistant's name. `out_of_chat` removes this name from answers.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <lazyprune/eval/task.hpp>

namespace lazyprune {
inline namespace v0 {

struct chat_format {
  std::string_view name;
  std::string_view before, after;     // text around the prompt
  std::string_view name_of_answer{};  // removed from answers, with the white space around an answer; empty: answers stay unchanged
  friend bool operator==(const chat_format&, const chat_format&) = default;
};

inline constexpr std::array<chat_format, 3> chat_formats{{
    {"none", "", ""},
    {"llama2", "[INST]", "[/INST]"},
    {"xgen",
     R"(A chat between a curious human and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the human's questions.

 ### Human: )",
     "\n###", "Assistant:"},
}};

/// Returns the format called `name`, or null.
constexpr const chat_format* find_chat_format(std::string_view name) {
  for (const chat_format& format : chat_formats)
    if (format.name == name) return &format;
  return nullptr;
}

/// Returns the prompt, followed by `answer_prefix`. If the task wants a chat, the prompt is in the chat format.
inline std::string in_chat(const chat_format& format, const eval_task& task, std::string_view prompt, std::string_view answer_prefix = {}) {
  if (!task.chat) return std::string(prompt).append(answer_prefix);
  return std::string(format.before).append(prompt).append(format.after).append(answer_prefix);
}

/// Removes the white space around the answer, then every `name_of_answer` in it. If this name is empty, returns the answer unchanged.
inline std::string out_of_chat(const chat_format& format, std::string_view answer) {
  std::string out(answer);
  if (format.name_of_answer.empty()) return out;
  constexpr std::string_view spaces = " \t\n\v\f\r";
  out.erase(0, out.find_first_not_of(spaces));
  out.erase(out.find_last_not_of(spaces) + 1);
  for (std::size_t at; (at = out.find(format.name_of_answer)) != out.npos;) out.erase(at, format.name_of_answer.size());
  return out;
}

}  // namespace v0
}  // namespace lazyprune
