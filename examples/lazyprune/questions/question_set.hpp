// SPDX-License-Identifier: MIT
// A benchmark's questions: samples from files, each with the task that says how it is asked and scored.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/eval/task.hpp>

namespace lazyprune {
inline namespace v0 {
class error;
}  // namespace v0

namespace program {

struct question {
  eval_sample sample;
  const eval_task* task;
  std::string file;    // that it stands in
  std::size_t number;  // in that file, from 1
};

/// Throws `error` where there is none of that name.
const eval_task& task_named(const std::string& name);

/// By the file's name without its ending, which is the task's where benchmarks name their files. Throws `error` where there is none of that
/// name.
const eval_task& task_of_file(const std::string& file);

/// Tells on stderr which lines are left out: the first few of them, and in the end how many more there were.
class left_out_lines {
 public:
  /// `strict`: no line may be left out.
  explicit left_out_lines(bool strict) : strict_(strict) {}
  left_out_lines(const left_out_lines&) = delete;
  left_out_lines& operator=(const left_out_lines&) = delete;
  ~left_out_lines();

  /// What readers of lines tell a bad one; none where no line may be left out.
  std::function<void(const error&)> teller();

 private:
  static constexpr std::size_t told = 5;

  bool strict_;
  std::size_t lines_ = 0;
};

class question_set {
 public:
  /// Reads the files. Throws `error` where one has no question that can be read and scored, or has one that cannot and --strict is given.
  explicit question_set(const question_flags& flags);

  std::size_t size() const { return questions_.size(); }
  const question& operator[](std::size_t place) const { return questions_[place]; }
  auto begin() const { return questions_.begin(); }
  auto end() const { return questions_.end(); }

  /// In the order in which the questions come to them.
  std::vector<const eval_task*> tasks() const;

  /// The places of a task's questions.
  std::vector<std::size_t> of_task(const eval_task& task) const;

 private:
  std::vector<question> questions_;
};

}  // namespace program
}  // namespace lazyprune
