// SPDX-License-Identifier: MIT
#include "questions/text_questions.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "words/prompt_text.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/eval/calibration_prompts.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::size_t answer_tokens = 32;

constexpr eval_task made_up_fact{"made_up_fact", "text", "{input}", answer_tokens, eval_metric::string_match_all};
constexpr eval_task repeated_quote{.name = "repeated_quote",
                                   .group = "text",
                                   .prompt = "{input}",
                                   .max_new = answer_tokens,
                                   .metric = eval_metric::string_match_all,
                                   .chat = false};

}  // namespace

std::vector<question> text_questions(const text_flags& flags, const tokenizer& tokens) {
  std::vector<token_id> ids;
  for (const std::string& file : flags.files) {
    const std::vector<token_id> more = tokens.encode(read_prompt(file), false, special_tokens::spelled_out);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  if (ids.size() < flags.tokens)
    throw error(flags.files.front(), "", "texts of at least " + std::to_string(flags.tokens) + " tokens", std::to_string(ids.size()));
  const std::size_t room = ids.size() - flags.tokens, count = std::min(flags.prompts, 1 + room);
  std::vector<std::string> passages;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = count > 1 ? room * i / (count - 1) : 0;
    passages.push_back(tokens.decode(std::span(ids).subspan(begin, flags.tokens)));
  }
  std::vector<question> questions;
  for (look_up_prompt& made : look_up_prompts(passages)) {
    if (made.answers.empty()) continue;
    eval_sample sample;
    sample.input = std::move(made.text);
    sample.answers = std::move(made.answers);
    sample.id = std::to_string(questions.size());
    questions.push_back({std::move(sample), made.asks ? &made_up_fact : &repeated_quote, flags.files.front(), questions.size() + 1});
  }
  return questions;
}

const eval_task* find_text_task(std::string_view name) {
  for (const eval_task* task : {&made_up_fact, &repeated_quote})
    if (task->name == name) return task;
  return nullptr;
}

}  // namespace program
}  // namespace lazyprune
