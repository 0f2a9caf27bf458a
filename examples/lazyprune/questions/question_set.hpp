// SPDX-License-Identifier: MIT
// A benchmark's questions: samples from files, each with the task that says how it is asked and scored.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/eval/summary.hpp>
#include <lazyprune/eval/task.hpp>

namespace lazyprune {
namespace program {

struct question {
  eval_sample sample;
  const eval_task* task;
  std::string file;    // that it stands in
  std::size_t number;  // in that file, from 1
};

/// Scores a file of predictions that exist, without a model, by the task of that name or, where it is empty, of the file's. An empty
/// `method` is the file's name. Throws `error` as the questions' reader does.
eval_summary scored_predictions(const std::string& file, const std::string& task, const std::string& method);

class question_set {
 public:
  /// Reads the files. Throws `error` where one has no question that can be read and scored, or has one that cannot and --strict is given.
  explicit question_set(const question_flags& flags);

  std::size_t size() const { return questions_.size(); }
  const question& operator[](std::size_t place) const { return questions_[place]; }
  auto begin() const { return questions_.begin(); }
  auto end() const { return questions_.end(); }

  /// The tasks in the order in which the questions come to them.
  std::vector<const eval_task*> tasks() const;

  /// The places of a task's questions.
  std::vector<std::size_t> of_task(const eval_task& task) const;

 private:
  std::vector<question> questions_;
};

}  // namespace program
}  // namespace lazyprune
