// SPDX-License-Identifier: MIT
// A benchmark's questions: samples from files, each with the task that defines its prompt and its metric.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/eval/summary.hpp>
#include <lazyprune/eval/task.hpp>

namespace lazyprune {
namespace program {

struct question {
  eval_sample sample;
  const eval_task* task;
  std::string file;    // the file of the sample
  std::size_t number;  // the sample's number in that file, from 1
};

/// Scores a file of existing predictions, without a model. An empty `task` means the task that the file is named after. An empty `method`
/// means the file's name. Throws `error` if there is no such task or the file cannot be read.
eval_summary scored_predictions(const std::string& file, const std::string& task, const std::string& method);

class question_set {
 public:
  explicit question_set(std::vector<question> questions) : questions_(std::move(questions)) {}

  /// Reads the files. Throws `error` if a file has no question that can be read and scored. With --strict, throws `error` if any
  /// question cannot be read and scored.
  explicit question_set(const question_flags& flags);

  std::size_t size() const { return questions_.size(); }
  const question& operator[](std::size_t place) const { return questions_[place]; }
  auto begin() const { return questions_.begin(); }
  auto end() const { return questions_.end(); }

  /// The tasks, in the order of their first questions.
  std::vector<const eval_task*> tasks() const;

  /// The indices of a task's questions.
  std::vector<std::size_t> of_task(const eval_task& task) const;

 private:
  std::vector<question> questions_;
};

}  // namespace program
}  // namespace lazyprune
