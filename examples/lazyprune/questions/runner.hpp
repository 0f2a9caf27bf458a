// SPDX-License-Identifier: MIT
// Answers a benchmark's questions with a model under any setting. The weights are loaded once, and every answer comes with its cost.
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
#include "questions/run_record.hpp"
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
  std::size_t question;  // index in the question_set
  eval_setting setting;
  std::string name;   // the prediction's method
  bool timed = true;  // false: may run together with others and share computed rows with them; the prediction then has no times
};

class runner {
 public:
  /// Reads the questions, or makes them out of texts, and opens the model without its weights. Questions out of texts are asked in the
  /// model's chat template if it has one. Throws `error` if an answer does not fit into the context, and as
  /// question_set and opened_model do.
  runner(const model_flags& model, const backend_flags& backend, const question_flags& flags, const policy_registry& policies);

  const question_set& questions() const { return questions_; }
  const opened_model& model() const { return model_; }
  layer_id layers() const { return model_.layers(); }
  const policy_registry& policies() const { return policies_; }

  /// Everything on which an answer depends: the flags, the model's fingerprint, and hashes of the chat template and of the prompt.
  std::string how_asked(const ask& asked) const;
  /// The end of this text, which does not depend on the setting.
  std::string how_asked(std::size_t question, bool timed) const;

  /// Returns the record of a run of this command over this part of the questions, without settings.
  run_record record(std::string command, const run_part& part) const;

  /// Loads the weights, starts the threads and warms up, before anything is timed. Later calls do nothing. `jobs`: the number of questions
  /// that are then answered at once. Each job gets its share of the threads, at least one. With several jobs no times are reported,
  /// because a question does not have the machine to itself.
  void load(std::size_t jobs = 1);

  /// Returns whether the prediction of this ask has times.
  bool times(const ask& asked) const { return jobs_ == 1 && asked.timed; }
  /// Returns how times are measured (how_timed). Call `load` first.
  std::string timed_on() const { return how_timed(backend_, engine_->threads()); }

  /// Announces that each question will be asked under all these settings before the next question is asked. Asks that are not timed then
  /// share a prefix. The prefix is the prompt without its last 16 tokens, read through the first layers. The number of these layers is
  /// chosen so that the most rows are saved. A setting that prunes earlier does not share. Nor does one whose scorer gathers longer windows
  /// than that of the setting that reads the prefix: it would read the end of the prefix again. The answers are the same. Returns the
  /// number of these layers; 0: nothing is shared.
  layer_id share(std::span<const eval_setting> settings);
  /// Announces that several settings come one after the other, each for all questions. Asks that are not timed then share
  /// prefixes, read through the layers before the first pruning of `setting`. A setting that prunes earlier does not share. Each prefix is
  /// kept until another call of `share` or of this function. Prefixes beyond `bytes` in all are not kept: those prompts are read again each
  /// time.
  void share_with_those_to_come(const eval_setting& setting, std::size_t bytes = std::size_t{2} << 30);

  /// Answers a question under a setting. Several threads may call it if nothing is shared.
  eval_prediction predict(const ask& asked) const { return std::move(predict(std::span(&asked, 1)).front()); }
  /// True if the two asks may be answered together: neither is timed, and both ask the same question if only one shared prefix is kept at a
  /// time.
  bool together(const ask& one, const ask& other) const {
    return !one.timed && !other.timed && (one.question == other.question || !sharing_ || keeps_beginnings_);
  }
  /// Answers the asks as one batch, in which each decode step reads the weights once for all of them. `together` must be true for any two
  /// of them. The answers are the same as without a batch.
  std::vector<eval_prediction> predict(std::span<const ask> asks) const;

  /// Returns the tokens of a question's prompt.
  std::vector<token_id> prompt(std::size_t question) const { return *prompt_of(question); }
  const tokenizer& tokens() const { return tokenizer_; }
  /// Returns the engine. Call `load` first.
  engine& loaded() { return *engine_; }

  /// Measures the seconds from a prompt's tokens to the dense model's first token.
  double dense_seconds(std::size_t question) const;

  /// Prints on stderr how many of the prompts did not fit and were truncated in the middle.
  void tell_of_cut_prompts() const;

 private:
  using shared_prompt = std::shared_ptr<const std::vector<token_id>>;

  std::size_t new_tokens(const eval_task& task) const { return flags_.predict > 0 ? flags_.predict : task.max_new; }

  /// Returns the expected number of tokens of a prompt and its answer together, by which LongRoPE chooses its frequencies
  /// (sequence::expect). If -c is given, it is the number given by -c.
  std::size_t expected(std::size_t prompt, const eval_task& task) const {
    return flags_.context > 0 ? context_ : std::min(prompt + new_tokens(task), context_);
  }

  /// The prompt's tokens, short enough that the answer fits into the context. The last prompt is cached: sweeps ask the same one many
  /// times.
  shared_prompt prompt_of(std::size_t place) const;
  std::vector<token_id> encoded(std::size_t place) const;

  /// The tokens of a prompt in its chat template, followed by the tokens of the answer's beginning.
  std::vector<token_id> encoded(const eval_task& task, std::string_view text, std::string_view answer_prefix) const;

  /// The range of the prompt's tokens that hold the sample's context, without the words of the task, the question and the chat template.
  token_range context_in(const question& asked, std::span<const token_id> prompt) const;

  double first_token_seconds(std::span<const token_id> prompt) const;

  struct answering;

  /// How a setting reads a prefix of a prompt.
  struct prefix_shape {
    layer_id layers = 0;     // the layers that compute the whole prefix, before the setting first prunes
    std::size_t window = 0;  // any_session::evidence_window: the last tokens of the prefix wait for the rest of the prompt

    /// Returns whether a session of this shape can go on from such a prefix without computing rows again.
    bool can_go_on_from(const prefix_shape& prefix) const { return layers >= prefix.layers && window <= prefix.window; }
  };
  /// Returns 0 layers for compression, which changes the prompt.
  prefix_shape prefix_of(const eval_setting& setting) const;
  void share(const eval_setting* setting, const prefix_shape& prefix);

  /// The shared prefix that the ask may go on from, and its number of tokens; null and 0 if there is none.
  std::pair<const prompt_prefix*, std::size_t> beginning_for(const ask& asked, const any_session& session,
                                                             std::span<const token_id> read) const;

  question_flags flags_;
  backend_flags backend_;
  const policy_registry& policies_;
  chat_format chat_;
  question_set questions_;
  opened_model model_;
  std::string identity_;  // of model_
  model_words words_;
  const tokenizer& tokenizer_;
  std::optional<chat_words> template_;  // set with --chat template
  std::vector<token_id> ends_;          // tokens that end a generation
  std::size_t context_;
  std::unique_ptr<engine> engine_;
  std::size_t jobs_ = 1;

  // The policy under which shared prefixes are read, and the prefixes by question: only the last one, or all that fit into `room_`.
  std::optional<policy_spec> sharing_;
  prefix_shape shared_;
  bool keeps_beginnings_ = false;
  mutable std::map<std::size_t, std::unique_ptr<prompt_prefix>> beginnings_;
  mutable std::size_t room_ = 0;  // bytes left for prefixes, if they are kept

  enum class reading : std::uint8_t { not_yet, whole, cut };
  mutable std::mutex reading_now_;
  mutable std::vector<reading> read_;  // (questions)
  mutable std::size_t last_place_ = 0;
  mutable shared_prompt last_;
};

}  // namespace program
}  // namespace lazyprune
