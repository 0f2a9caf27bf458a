// SPDX-License-Identifier: MIT
#include "commands/merge.hpp"

#include <filesystem>

#include "commands/eval.hpp"
#include "commands/fidelity.hpp"
#include "commands/sweep.hpp"
#include "questions/comparison_file.hpp"
#include "questions/growing_file.hpp"
#include "questions/recorded_prediction.hpp"
#include "questions/results.hpp"
#include "questions/run_results.hpp"
#include "terminal/interrupts.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/output_file.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Writes the answers of all parts into the folder, in the order of one run, and the record of that run. Returns the answers.
template <class Answer>
run_results<Answer> merged(const merge_flags& flags) {
  run_results<Answer> results = read_results<Answer>(flags.parts);
  results.check_complete();
  make_directory(flags.directory);
  const std::filesystem::path path = file_in(flags.directory, Answer::file_name);
  if (const auto unfinished = unfinished_file(path))
    throw error(unfinished->string(), "", "another folder, or no such file", "that of an interrupted run");
  output_file file(path);
  for (const run_place& place : results.record().in_order()) file.write(results.find(place)->line() + '\n');
  file.commit();
  run_record whole = results.record();
  whole.part = {};
  write_whole(file_in(flags.directory, record_file_name), json_of(whole));
  return results;
}

}  // namespace

int merge(const merge_flags& flags) {
  remove_files_when_interrupted();
  const std::string command = read_run_record(flags.parts.front()).command;
  if (command == "fidelity") {
    const auto results = merged<recorded_comparison>(flags);
    show_fidelity(
        results.record(), [&](const run_place& place) { return &results.find(place)->value; }, flags.output);
    return 0;
  }
  const auto results = merged<recorded_prediction>(flags);
  const auto find = [&](const run_place& place) { return &results.find(place)->value; };
  if (command == "sweep")
    show_sweep(results.record(), find, flags.directory, flags.output);
  else
    show_eval(results.record(), find, flags.output);
  return 0;
}

}  // namespace program
}  // namespace lazyprune
