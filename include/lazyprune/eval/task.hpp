// SPDX-License-Identifier: MIT
// One task of a benchmark: how its samples become prompts, how long the answers are, and how they are scored.
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
  std::string_view group;   // the row of the paper's Table 1 that it belongs to; "RULER"
  std::string_view prompt;  // {context}, once at most, and {input} stand for the sample's
  std::size_t max_new;      // tokens to generate
  eval_metric metric;
  bool first_line = false;     // only the first line of a prediction counts, the empty ones before it apart
  bool chat = true;            // a chat model's own words go around the prompt
  std::string_view stop = "";  // the answer ends before this text, empty lines before the answer apart; empty: at EOS
  friend bool operator==(const eval_task&, const eval_task&) = default;
};

/// A prompt, without the words of a chat model around it: a sample's context, and what stands before and after it.
struct prompt_parts {
  std::string before, context, after;
  friend bool operator==(const prompt_parts&, const prompt_parts&) = default;
};

/// Fills in the task's prompt, and begins the answer (answer_prefix). One without a place for the context, as RULER's, is context as a
/// whole.
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

/// The whole prompt, where no words of a chat stand before the beginning of the answer.
inline std::string prompt_of(const eval_task& task, const eval_sample& sample) {
  const prompt_parts parts = prompt_parts_of(task, sample);
  return parts.before + parts.context + parts.after;
}

/// The part of generated text that is the answer: it ends at the task's stop text.
inline std::string_view answer_in(const eval_task& task, std::string_view generated) {
  if (task.stop.empty()) return generated;
  const std::size_t begin = generated.find_first_not_of('\n');
  return begin == generated.npos ? generated : generated.substr(0, generated.find(task.stop, begin));
}

/// What the prediction scores, from 0 to 1. Throws `error` as the metric does.
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
