// SPDX-License-Identifier: MIT
#include "commands/run_questions.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/outcome.hpp"
#include "commands/prompt_run.hpp"
#include "engine/engine.hpp"
#include "terminal/interrupts.hpp"
#include "terminal/reading_progress.hpp"
#include "words/prompt_text.hpp"

#include <lazyprune/files/line_reader.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/rope.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Returns whether a line has nothing but the line break of Windows, or the byte order mark.
bool is_blank(std::string_view line) { return without_utf8_mark(line).find_first_not_of('\r') == line.npos; }

std::vector<std::string> read_questions(const std::string& file) {
  line_reader lines(file);
  std::vector<std::string> questions;
  while (auto line = lines.next())
    if (!is_blank(*line)) questions.push_back(prompt_text(*line + '\n', lines.name()));
  if (questions.empty()) throw error(lines.name(), "", "at least one question, each a line", "none");
  return questions;
}

/// The length of the longest common prefix of all prompts, in tokens. At least one token of each prompt is left as its query.
std::size_t shared_length(const std::vector<chat_prompt>& prompts) {
  const std::vector<token_id>& first = prompts.front().ids;
  std::size_t shared = first.size();
  for (const chat_prompt& prompt : prompts) {
    const auto parting = std::ranges::mismatch(first, prompt.ids).in1 - first.begin();
    shared = std::min({shared, static_cast<std::size_t>(parting), prompt.ids.size() - 1});
  }
  return shared;
}

/// The common prefix of the prompts, read in chunks. They run only layers before the first pruning.
struct reader {
  shared_prefix shared{};
  std::unique_ptr<prompt_prefix> beginning{};
};

class questions_run {
 public:
  questions_run(const run_flags& flags, const std::string& document, std::vector<std::string> questions, const policy_registry& policies)
      : flags_(flags), questions_(std::move(questions)), run_(flags, policies) {
    for (const std::string& question : questions_) {
      prompts_.push_back(run_.prompt(document + '\n' + question));
      run_.check_length(prompts_.back().ids, "question " + std::to_string(prompts_.size()));
    }
    const rope_kind rope = rope_of(prompts_.front().ids);
    const bool alike = std::ranges::all_of(prompts_, [&](const chat_prompt& prompt) { return rope_of(prompt.ids) == rope; });
    if (run_.generates() && alike) shared_ = shared_length(prompts_);
  }

  int run() {
    reader pruned, dense;
    if (run_.load(prompts_.front().ids) && read(pruned, run_.pruned()) && (!flags_.compare || read(dense, run_.dense())))
      for (std::size_t i = 0; i < prompts_.size() && !interrupted(); ++i) ask(i, pruned, dense);
    if (!flags_.json) report(results_, questions_.size(), flags_.verbose);
    return 0;
  }

 private:
  /// The most tokens that this prompt and its answer can have.
  std::size_t length_with(const std::vector<token_id>& prompt) const {
    if (flags_.context > 0) return flags_.context;
    const std::size_t most = run_.model().context(0), wanted = flags_.force.empty() ? flags_.predict : flags_.force.size();
    return prompt.size() + std::min(wanted, most - prompt.size());
  }
  /// With LongRoPE, the rotary factors depend on the length of prompt and answer. Prompts with different factors cannot share rows.
  rope_kind rope_of(const std::vector<token_id>& prompt) const { return rope_kind_for(run_.model().config(), length_with(prompt)); }

  bool read(reader& r, const named_policy& policy) {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    generation_options options = run_.options();
    if (shared_ > 0) options.expected = length_with(prompts_.front().ids);
    reading_progress progress(shared_, !flags_.json);
    step_observers observers{&progress, options.observer};
    options.observer = &observers;
    r.beginning = run_.engine().read(run_.new_session(policy), std::span(prompts_.front().ids).first(shared_), options);
    if (!r.beginning) return false;
    r.shared = {shared_, r.beginning->rows(), std::chrono::duration<double>(clock::now() - start).count()};
    return true;
  }

  void ask(std::size_t number, reader& pruned, reader& dense) {
    if (!flags_.json) std::cout << (number > 0 ? "\n" : "") << "> " << questions_[number] << '\n' << std::flush;
    const named_policy policy = run_.pruned_except(prompts_[number].kept);
    question_outcome result{answer(number, pruned, policy, !flags_.json), std::nullopt};
    if (flags_.compare && !interrupted()) result.dense = answer(number, dense, run_.dense(), false);
    if (interrupted()) result.dense.reset();  // a run that was cut short cannot be compared
    if (flags_.json) std::cout << to_json(run_.heading(), result.pruned, result.dense) << std::flush;
    results_.push_back(std::move(result));
  }

  outcome answer(std::size_t number, reader& r, const named_policy& policy, bool show) {
    const std::vector<token_id>& prompt = prompts_[number].ids;
    outcome result = run_.answer(policy, prompt, shared_, show, [&](const generation_options& options) {
      return r.beginning->generate(run_.new_session(policy), std::span(prompt).subspan(shared_), options);
    });
    result.shared = r.shared;
    return result;
  }

  run_flags flags_;
  std::vector<std::string> questions_;
  prompt_run run_;
  std::vector<chat_prompt> prompts_;
  std::size_t shared_ = 0;  // tokens
  std::vector<question_outcome> results_;
};

}  // namespace

int run_questions(const run_flags& flags, const std::string& document, const policy_registry& policies) {
  std::vector<std::string> questions = read_questions(flags.questions);
  catch_interrupts();
  return questions_run(flags, document, std::move(questions), policies).run();
}

}  // namespace program
}  // namespace lazyprune
