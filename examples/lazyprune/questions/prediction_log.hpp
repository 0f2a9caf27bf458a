// SPDX-License-Identifier: MIT
// Holds the predictions of a run in memory and in a file. A run can take up the predictions of an earlier run and make only the missing
// ones. Each earlier prediction is checked against the questions and settings of this run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "questions/prediction_file.hpp"
#include "questions/runner.hpp"
#include "questions/time_limit.hpp"

namespace lazyprune {
namespace program {

class prediction_log {
 public:
  /// The answers of `run` go to the file, or to memory alone if the path is empty. Prints a line on stderr if a finished file will be
  /// replaced. Throws `error` as prediction_file does.
  prediction_log(const runner& run, const std::filesystem::path& path, bool resume);

  /// Takes up the predictions of an earlier run. Each must belong to one of `asks`, in any order. Throws `error` if the model,
  /// question or flags of a prediction differ from those of every ask, or if two predictions belong to the same ask.
  void take_up(std::span<const ask> asks);

  /// Takes up the predictions of an earlier run, in any order. `setting_of` returns the setting under which the prediction `done` must have
  /// been made. The method of the prediction must be the method of this setting. `place` names the prediction in errors. `untimed`: also
  /// accept predictions that were not timed. Throws `error` if the model, question or flags of a prediction differ from those of this run,
  /// or if two predictions belong to the same question and setting.
  void take_up(bool untimed, const std::function<eval_setting(const eval_prediction& done, const std::string& place)>& setting_of);

  /// Throws `error` if the times of an earlier prediction were not measured as this run measures times (runner::timed_on).
  void check_times() const;

  /// The record is written before this run's first prediction is, or when the file gets its final name.
  void go_with(record_file record) { record_ = std::move(record); }

  /// Returns the prediction for a question that was asked under this ask::name; null if there is none yet.
  const eval_prediction* find(std::size_t question, const std::string& name) const;

  void add(const ask& asked, eval_prediction prediction);

  /// Renames the file to its final name. `order` lists every prediction once; the file then has this order. If `order` is empty, the order
  /// of the file does not change.
  void commit(std::span<const ask> order = {});

 private:
  using places = std::vector<std::optional<std::size_t>>;  // (questions): indices into done()

  const std::vector<eval_prediction>& done() const { return file_ ? file_->done() : kept_; }
  places& places_of(const std::string& name);

  struct mismatch {
    std::string expected, found;
  };
  /// How an earlier prediction differs from one that `runner::predict` would make; nullopt if it does not.
  std::optional<mismatch> mismatch_of(const eval_prediction& earlier, const ask& asked) const;
  [[noreturn]] void refuse(std::size_t prediction, const mismatch& why) const;

  const runner& run_;
  std::string path_;
  std::optional<prediction_file> file_;
  std::optional<record_file> record_;
  std::vector<eval_prediction> kept_;     // the predictions, if there is no file
  std::map<std::string, places> places_;  // by ask::name
};

/// Answers every ask that has no prediction in the log. `predict` gets groups of asks that may be answered together; `jobs` groups are
/// answered at once. Loads the model if a prediction is missing. Draws a progress bar labelled `what`. `until` is a time limit; null: no
/// limit. When the time is over, only the current question is finished, under all its settings. The first question is always answered. A
/// limit needs `jobs` == 1.
void answer(runner& run, prediction_log& log, std::span<const ask> asks, std::size_t jobs, const std::string& what,
            const std::function<std::vector<eval_prediction>(std::span<const ask>)>& predict, const time_limit* until = nullptr);

}  // namespace program
}  // namespace lazyprune
