// SPDX-License-Identifier: MIT
// A task of a benchmark: how its samples become prompts, how long answers may be, and how they are scored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <lazyprune/eval/metric.hpp>
#include <lazyprune/eval/sample.hpp>

namespace lazyprune {
inline namespace v0 {

struct eval_task {
  std::string_view name;    // of the data set
  std::string_view group;   // its row in the paper's Table 1, or "RULER"
  std::string_view prompt;  // the sample's context replaces {context} (at most one), and the sample's input replaces {input}
  std::size_t max_new;      // tokens to generate
  eval_metric metric;
  bool first_line = false;  // only the first non-empty line of a prediction counts
  bool chat = true;         // the prompt goes into the model's chat format
  std::string_view stop{};  // the answer ends where this text first occurs after the answer's leading line breaks; empty: at EOS
  friend bool operator==(const eval_task&, const eval_task&) = default;
};

/// A prompt without chat format: a sample's context, and the text before and after it.
struct prompt_parts {
  std::string before, context, after;
  friend bool operator==(const prompt_parts&, const prompt_parts&) = default;
};

/// Fills in the task's prompt, and appends the sample's answer_prefix. If the prompt has no {context}, as in RULER, the whole filled-in
/// prompt becomes prompt_parts::context.
inline prompt_parts prompt_parts_of(const eval_task& task, const eval_sample& sample) {
  constexpr std::string_view context = "{context}", input = "{input}";
  const auto with_input = [&](std::string_view text) {
    std::string out;
    for (std::size_t at; (at = text.find(input)) != text.npos; text.remove_prefix(at + input.size()))
      out.append(text.substr(0, at)).append(sample.input);
    return out.append(text);
  };
  const std::size_t at = task.prompt.find(context);
  if (at == task.prompt.npos) return {"", with_input(task.prompt), sample.answer_prefix};
  return {with_input(task.prompt.substr(0, at)), sample.context,
          with_input(task.prompt.substr(at + context.size())) + sample.answer_prefix};
}

/// Returns the whole prompt, for use without a chat format.
inline std::string prompt_of(const eval_task& task, const eval_sample& sample) {
  const prompt_parts parts = prompt_parts_of(task, sample);
  return parts.before + parts.context + parts.after;
}

/// Returns the part of generated text that is the answer: it ends at the task's stop text.
inline std::string_view answer_in(const eval_task& task, std::string_view generated) {
  if (task.stop.empty()) return generated;
  const std::size_t begin = generated.find_first_not_of('\n');
  return begin == generated.npos ? generated : generated.substr(0, generated.find(task.stop, begin));
}

/// Returns the score of a prediction, from 0 to 1. Throws `error` as the metric does.
inline double score_of(const eval_task& task, const eval_prediction& prediction) {
  std::string_view text = prediction.text;
  if (task.first_line) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    text = text.substr(0, text.find('\n'));
  }
  return score_of(task.metric, text, prediction.answers, prediction.all_classes ? &*prediction.all_classes : nullptr);
}

}  // namespace v0
}  // namespace lazyprune
