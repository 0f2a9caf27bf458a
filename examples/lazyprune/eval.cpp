// SPDX-License-Identifier: MIT
// lazyprune eval: what predictions score by the benchmarks' own metrics.

#include <filesystem>
#include <functional>
#include <iostream>

#include "commands.hpp"
#include "format.hpp"

#include <lazyprune/eval/summary_text.hpp>
#include <lazyprune/eval/tasks.hpp>

namespace {

const lazyprune::eval_task& task_named(const std::string& name) {
  if (const lazyprune::eval_task* task = lazyprune::find_task(name)) return *task;
  throw lazyprune::error("--task", "", "the name of a LongBench, RULER or pocket task", name);
}

/// The file's name without its ending, which is the task's where benchmarks name their files.
std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

/// Says what is wrong with a line that is left out; none where nothing may be.
std::function<void(const lazyprune::error&)> complaints(bool strict) {
  if (strict) return {};
  return [](const lazyprune::error& fault) { std::cerr << "left out: " << one_line(fault.what()) << std::endl; };
}

void print(const std::vector<lazyprune::eval_summary>& summaries, const std::string& format) {
  if (format == "md") std::cout << to_markdown(summaries);
  if (format == "json") std::cout << to_json(summaries);
  if (format == "csv") std::cout << to_csv(summaries);
}

}  // namespace

int eval(const eval_flags& flags) {
  if (flags.output != "md" && flags.output != "json" && flags.output != "csv")
    throw lazyprune::error("--output", "", "md, json or csv", flags.output);
  if (flags.predictions.empty()) throw lazyprune::error("eval", "", "--predictions FILE.jsonl", "none");
  const lazyprune::eval_task& task = task_named(flags.task.empty() ? stem_of(flags.predictions) : flags.task);
  lazyprune::line_reader lines(flags.predictions);
  const std::string method = flags.method.empty() ? lines.name() : flags.method;
  print({score_predictions(lines, task, method, complaints(flags.strict))}, flags.output);
  return 0;
}
