// SPDX-License-Identifier: MIT
// Puts a benchmark's questions to a model under any setting: weights are loaded once, and every answer comes with what it cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/flags.hpp"
#include "engine/engine.hpp"
#include "models/model_choice.hpp"
#include "questions/method.hpp"
#include "questions/question_set.hpp"
#include "words/model_words.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/eval/chat.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
inline namespace v0 {
struct token_range;
}  // namespace v0

namespace program {

/// A question under a setting.
struct ask {
  std::size_t question;  // its place
  eval_setting setting;
  std::string name;   // what made the answer, as its prediction says
  bool timed = true;  // else it may be asked together with others and share what it computes alike with them, and no times are told
};

class runner {
 public:
  /// Reads the questions and opens the model, whose weights it does not load yet. Throws `error` where one cannot be asked in this context,
  /// and as question_set does.
  runner(const model_flags& model, const backend_flags& backend, const question_flags& flags, const policy_registry& policies);

  const question_set& questions() const { return questions_; }
  const opened_model& model() const { return model_; }
  layer_id layers() const { return model_.layers(); }
  const policy_registry& policies() const { return policies_; }

  /// What an answer depends on beside the model, as flags; a digest stands for the prompt.
  std::string how_asked(const ask& asked) const;

  /// Loads the weights, starts the threads and brings the code to memory, before a clock runs; once. `jobs`: questions that are then asked
  /// at once, each with its share of the threads, one at least, and without telling times, which would not be its own.
  void load(std::size_t jobs = 1);

  /// Says which settings every question will be put under, one after the other: asks that are not timed then go on from a beginning that
  /// most of them share. The answers are the same. Returns how many layers it has; 0: nothing is shared.
  layer_id share(std::span<const eval_setting> settings);
  /// Says that settings will follow, one after the other and each for all questions, that prune no sooner than this one: asks that are not
  /// timed then go on from beginnings of as many layers, each of which is kept until something else is shared. What does not fit into so
  /// many bytes is read anew each time.
  void share_with_those_to_come(const eval_setting& setting, std::size_t bytes = std::size_t{2} << 30);

  /// Answers a question under a setting. Several threads may ask, where nothing is shared.
  eval_prediction predict(const ask& asked) const { return std::move(predict(std::span(&asked, 1)).front()); }
  /// Whether these may be answered together: they are not timed, and of one question where one beginning at a time is there.
  bool together(const ask& one, const ask& other) const {
    return !one.timed && !other.timed && (one.question == other.question || !sharing_ || keeps_beginnings_);
  }
  /// Answers what may be answered together: the weights are read once a token for all. The same answers.
  std::vector<eval_prediction> predict(std::span<const ask> asks) const;

  /// Seconds from a question to the dense model's first token.
  double dense_seconds(std::size_t question) const;

  /// Says on stderr how many of the prompts that were read did not fit, and lost their middle.
  void tell_of_cut_prompts() const;

 private:
  using shared_prompt = std::shared_ptr<const std::vector<token_id>>;

  std::size_t new_tokens(const eval_task& task) const { return flags_.predict > 0 ? flags_.predict : task.max_new; }

  /// How long the text of such a prompt will get with its answer, as its rotary positions are chosen: what -c says, where it is given.
  std::size_t expected(std::size_t prompt, const eval_task& task) const {
    return flags_.context > 0 ? context_ : std::min(prompt + new_tokens(task), context_);
  }

  /// The prompt's tokens, with room for the answer after them. The last one is remembered: sweeps ask the same many times.
  shared_prompt prompt_of(std::size_t place) const;
  std::vector<token_id> encoded(std::size_t place) const;

  /// A prompt's tokens, in the words of its chat, and those of the beginning of its answer.
  std::vector<token_id> encoded(const eval_task& task, std::string_view text, std::string_view answer_prefix) const;

  /// The prompt's tokens that are of the sample's context: not of the task's words, the question, or the chat model's words.
  token_range context_in(const question& asked, std::span<const token_id> prompt) const;

  double first_token_seconds(std::span<const token_id> prompt) const;

  struct answering;

  /// How many layers compute the whole prompt whatever its query; none where it is changed before.
  layer_id layers_before_pruning(const eval_setting& setting) const;
  void share(const eval_setting* setting, layer_id layers);

  /// The beginning that the ask may go on from, and how many of its tokens that has.
  std::pair<const text_beginning*, std::size_t> beginning_for(const ask& asked, const any_session& session,
                                                              std::span<const token_id> read) const;

  question_flags flags_;
  backend_flags backend_;
  const policy_registry& policies_;
  chat_format chat_;
  question_set questions_;
  opened_model model_;
  model_words words_;
  const tokenizer& tokenizer_;
  std::optional<chat_words> template_;  // with --chat template
  std::vector<token_id> ends_;          // of a generation
  std::size_t context_;
  std::unique_ptr<engine> engine_;
  std::size_t jobs_ = 1;

  // The policy whose chunks are the shared beginnings, and those that are there: the last question's, or all that were read.
  std::optional<policy_spec> sharing_;
  layer_id shared_layers_ = 0;
  bool keeps_beginnings_ = false;
  mutable std::map<std::size_t, std::unique_ptr<text_beginning>> beginnings_;
  mutable std::size_t room_ = 0;  // bytes left, where they are kept

  enum class reading : std::uint8_t { not_yet, whole, cut };
  mutable std::mutex reading_now_;
  mutable std::vector<reading> read_;  // (questions)
  mutable std::size_t last_place_ = 0;
  mutable shared_prompt last_;
};

}  // namespace program
}  // namespace lazyprune
