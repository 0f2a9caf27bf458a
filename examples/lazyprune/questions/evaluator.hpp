// SPDX-License-Identifier: MIT
// Questions of benchmarks put to a model under any setting: weights are loaded once, and every answer comes with what it cost.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands/flags.hpp"
#include "engine/engine.hpp"

#include <lazyprune/eval/chat.hpp>
#include <lazyprune/eval/task.hpp>
#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/io/tokenizer.hpp>
#include "questions/method.hpp"

namespace lazyprune {
namespace program {

struct question {
  lazyprune::eval_sample sample;
  const lazyprune::eval_task* task;
  std::string file;    // that it stands in
  std::size_t number;  // in that file, from 1
};

/// Throws `error` where there is none of that name.
const lazyprune::eval_task& task_named(const std::string& name);

/// By the file's name without its ending, which is the task's where benchmarks name their files. Throws `error` where there is none of that
/// name.
const lazyprune::eval_task& task_of_file(const std::string& file);

/// Says what is wrong with a line that is left out; none where nothing may be.
std::function<void(const lazyprune::error&)> complaints(bool strict);

class evaluator {
 public:
  /// Reads the questions and opens the model, whose weights it does not load yet. Throws `error` where a file has no question that can
  /// be read and scored, with --strict where it has one that cannot, and where one cannot be asked in this context.
  evaluator(const model_flags& model, const backend_flags& backend, const question_flags& flags);

  const std::vector<question>& questions() const { return questions_; }
  /// In the order in which the questions come to them.
  std::vector<const lazyprune::eval_task*> tasks() const;
  const lazyprune::checkpoint& model() const { return model_; }
  lazyprune::layer_id layers() const { return static_cast<lazyprune::layer_id>(model_.config().layers); }

  /// Throws `error` where prediction `number` of a file is not what `predict` gives: an answer of another model, to another question, or to
  /// this one asked otherwise.
  void check_earlier(const lazyprune::eval_prediction& done, const std::string& file, std::size_t number, const question& asked,
                     const eval_setting& setting, const std::string& method) const;

  /// The first of `open` questions, by their places in questions(), to which prediction `number` of a file is what `predict` gives. Throws
  /// `error` where it is that to none.
  std::size_t question_of(const lazyprune::eval_prediction& done, const std::string& file, std::size_t number,
                          std::span<const std::size_t> open, const eval_setting& setting, const std::string& method) const;

  /// Loads the weights, starts the threads and brings the code to memory, before a clock runs. `jobs`: questions that are then asked at
  /// once, each with its share of the threads, one at least, and without telling times, which would not be its own.
  void load(std::size_t jobs = 1);

  /// The prompt's tokens, with room for the answer after them.
  std::vector<lazyprune::token_id> prompt_of(const question& asked) const;

  /// `method`: what the prediction says made it.
  lazyprune::eval_prediction predict(const question& asked, std::span<const lazyprune::token_id> prompt, const eval_setting& setting,
                                     const std::string& method) const;

  /// To the dense model's first token.
  double dense_seconds(std::span<const lazyprune::token_id> prompt) const;

 private:
  std::size_t new_tokens(const lazyprune::eval_task& task) const { return flags_.predict > 0 ? flags_.predict : task.max_new; }

  struct mismatch {
    std::string expected, found;
  };
  /// None where it is what `predict` gives.
  std::optional<mismatch> mismatch_of(const lazyprune::eval_prediction& done, const question& asked, const eval_setting& setting,
                                      const std::string& method) const;

  /// All that an answer depends on beside the model, as flags; a digest stands for the prompt.
  std::string how_asked(const question& asked, const eval_setting& setting) const;

  question_flags flags_;
  backend_flags backend_;
  lazyprune::chat_format chat_;
  std::vector<question> questions_;
  lazyprune::checkpoint model_;
  lazyprune::tokenizer tokenizer_;
  std::size_t context_;
  std::unique_ptr<engine> engine_;
  std::size_t jobs_ = 1;
};

}  // namespace program
}  // namespace lazyprune
