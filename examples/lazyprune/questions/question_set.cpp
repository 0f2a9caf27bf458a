// SPDX-License-Identifier: MIT
#include "questions/question_set.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string_view>
#include <utility>

#include "questions/known_tasks.hpp"
#include "terminal/columns.hpp"

#include <lazyprune/eval/records.hpp>

namespace lazyprune {
namespace program {
namespace {

constexpr std::string_view task_names = "the name of a LongBench, RULER, pocket or quote task";

/// Prints on stderr the first few lines that are left out, and at the end the number of further ones.
class left_out_lines {
 public:
  /// `strict`: no line may be left out; a bad line is an error.
  explicit left_out_lines(bool strict) : strict_(strict) {}
  left_out_lines(const left_out_lines&) = delete;
  left_out_lines& operator=(const left_out_lines&) = delete;
  ~left_out_lines() {
    if (lines_ > told) std::cerr << "left out: " << lines_ - told << " more" << std::endl;
  }

  /// Returns the function that a reader calls with a bad line; an empty function if `strict`.
  std::function<void(const error&)> teller() {
    if (strict_) return {};
    return [this](const error& fault) {
      if (lines_++ < told) std::cerr << "left out: " << one_line(fault.what()) << std::endl;
    };
  }

 private:
  static constexpr std::size_t told = 5;

  bool strict_;
  std::size_t lines_ = 0;
};

std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

/// Returns the task with this name. Throws `error` if there is none.
const eval_task& task_named(const std::string& name) {
  if (const eval_task* task = find_known_task(name)) return *task;
  throw error("--task", "", task_names, name);
}

/// Returns the task whose name is the file's name without the extension: benchmarks name their files after tasks. Throws `error` if there
/// is none.
const eval_task& task_of_file(const std::string& file) {
  if (const eval_task* task = find_known_task(stem_of(file))) return *task;
  throw error("--task", "", task_names, "no flag, and no task is called " + stem_of(file) + ", as the file is");
}

/// Throws `error` if the task cannot score the sample. Such a sample is then found before any model runs.
void check_scorable(const eval_task& task, const eval_sample& sample, const json_value& record) {
  try {
    score_of(task, {.text = "", .answers = sample.answers, .all_classes = sample.all_classes, .length = {}, .id = "", .cost = {}});
  } catch (const error& fault) {
    throw error(record.file(), record.place(), "a sample that " + std::string(task.name) + " can score", fault.what());
  }
}

/// Reads a file's questions. The task is that of --task; otherwise the one that the sample names; otherwise the one that the file is named
/// after. A sample that names an unknown task, or that its task cannot score, is a bad line.
std::vector<question> questions_of(const std::string& file, const question_flags& flags) {
  const auto task_of = [&](const eval_sample& sample) {
    return !flags.task.empty() ? &task_named(flags.task) : find_known_task(sample.dataset.empty() ? stem_of(file) : sample.dataset);
  };
  const auto check = [&](const eval_sample& sample, const json_value& record) {
    const eval_task* task = task_of(sample);
    if (!task && !sample.dataset.empty()) record.at("dataset").refuse(task_names);
    if (task && (flags.needs_answers || !sample.answers.empty()))
      check_scorable(*task, sample, record);  // if there is no task, task_of_file throws below
  };
  line_reader lines(file);
  left_out_lines left_out(flags.strict);
  std::vector<eval_sample> samples = read_samples(lines, left_out.teller(), check);
  if (samples.empty()) throw error(lines.name(), "", "at least one sample", "none");
  if (flags.limit > 0 && samples.size() > flags.limit) samples.resize(flags.limit);
  std::vector<question> questions;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const eval_task* task = task_of(samples[i]);
    questions.push_back({std::move(samples[i]), task ? task : &task_of_file(file), file, i + 1});
  }
  return questions;
}

}  // namespace

eval_summary scored_predictions(const std::string& file, const std::string& task, const std::string& method) {
  line_reader lines(file);
  const eval_task& scored_by = task.empty() ? task_of_file(file) : task_named(task);
  return score_predictions(lines, scored_by, method.empty() ? lines.name() : method);
}

question_set::question_set(const question_flags& flags) {
  if (!flags.task.empty()) task_named(flags.task);
  for (const std::string& file : flags.data)
    for (question& read : questions_of(file, flags)) questions_.push_back(std::move(read));
}

std::vector<const eval_task*> question_set::tasks() const {
  std::vector<const eval_task*> seen;
  for (const question& asked : questions_)
    if (std::ranges::find(seen, asked.task) == seen.end()) seen.push_back(asked.task);
  return seen;
}

std::vector<std::size_t> question_set::of_task(const eval_task& task) const {
  std::vector<std::size_t> places;
  for (std::size_t q = 0; q < questions_.size(); ++q)
    if (questions_[q].task == &task) places.push_back(q);
  return places;
}

}  // namespace program
}  // namespace lazyprune
