// SPDX-License-Identifier: MIT
// The predictions of a run, in memory and in a file that outlives it; those of an earlier run are taken up, each checked against what is
// asked now.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "questions/prediction_file.hpp"
#include "questions/runner.hpp"
#include "questions/time_limit.hpp"

namespace lazyprune {
namespace program {

class prediction_log {
 public:
  /// The answers of `run` go to the file; an empty path: to memory alone. Says on stderr where a finished file will be replaced. Throws as
  /// prediction_file does.
  prediction_log(const runner& run, const std::filesystem::path& path, bool resume);

  /// Takes up the predictions of an earlier run, each of which must be that of an ask, in any order. Throws `error` where one is not: one of
  /// another model, to another question, or to this one asked otherwise.
  void take_up(std::span<const ask> asks);

  /// Takes up the predictions of an earlier run in any order. `setting_of` says under which setting one must have been asked, by a name
  /// that is the setting's method; `place` is for errors. `untimed`: those that were asked without a clock will do, too. Throws as above.
  void take_up(bool untimed, const std::function<eval_setting(const eval_prediction& done, const std::string& place)>& setting_of);

  /// The prediction on a question by that name; null where it was not asked yet.
  const eval_prediction* find(std::size_t question, const std::string& name) const;

  void add(const ask& asked, eval_prediction prediction);

  /// Gives the file its name; where an order is given, with the predictions in it, all of them.
  void commit(std::span<const ask> order = {});

 private:
  using places = std::vector<std::optional<std::size_t>>;  // (questions), in done()

  const std::vector<eval_prediction>& done() const { return file_ ? file_->done() : kept_; }
  places& places_of(const std::string& name);

  struct mismatch {
    std::string expected, found;
  };
  /// How an earlier prediction differs from what `runner::predict` gives; none where it does not.
  std::optional<mismatch> mismatch_of(const eval_prediction& earlier, const ask& asked) const;
  [[noreturn]] void refuse(std::size_t prediction, const mismatch& why) const;

  const runner& run_;
  std::string path_;
  std::optional<prediction_file> file_;
  std::vector<eval_prediction> kept_;     // where there is no file
  std::map<std::string, places> places_;  // by the name of what made them
};

/// Asks all that the log has no prediction of, `jobs` at once, with a bar that is called `what`. The model is loaded where anything is
/// open. What may be answered together is. Past the limit, which is for one job, the question at work is asked to its end, and no other.
void answer(runner& run, prediction_log& log, std::span<const ask> asks, std::size_t jobs, const std::string& what,
            const std::function<std::vector<eval_prediction>(std::span<const ask>)>& predict, const time_limit* until = nullptr);

}  // namespace program
}  // namespace lazyprune
