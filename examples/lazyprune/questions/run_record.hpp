// SPDX-License-Identifier: MIT
// What a run is about: the model, the settings and the samples. Each folder of a sweep, and each folder of a part, has this record beside
// its answers. Parts of one run have equal records but for the number of the part. Tables are made out of a record and the answers alone,
// so that the merged parts give the tables of one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "questions/run_part.hpp"

#include <lazyprune/policy/schedule/stages.hpp>

namespace lazyprune {
inline namespace v0 {
struct eval_prediction;
struct eval_task;
}  // namespace v0

namespace program {

struct backend_flags;

/// A setting with its own lines in the tables.
struct recorded_setting {
  std::string method;              // "lazyllm@3+5"
  std::optional<double> budget{};  // none: dense, or a single policy
  std::string policy{};            // all of its flags
  std::optional<stage> single{};   // the only stage, for the sensitivity of a sweep
  std::size_t repeats = 1;         // how often each sample is asked, each time with another seed
  friend bool operator==(const recorded_setting&, const recorded_setting&) = default;
};

struct recorded_sample {
  std::string task;                   // empty: a text without a task
  std::string file;                   // the file of the sample
  std::size_t number;                 // samples are asked in the order of these numbers
  std::string id;                     // empty: none
  std::string asked;                  // all that the answers depend on except the setting
  std::uint64_t digest;               // the hash that decides about the part
  std::vector<std::uint64_t> asks{};  // hashes, by which answers are found: one for each setting and repeat under which the sample is asked
  friend bool operator==(const recorded_sample&, const recorded_sample&) = default;

  /// "sample 3 of hotpotqa.jsonl", for errors.
  std::string name() const;
};

/// An answer that a run needs: an index into the samples, and an index into the asks of this sample.
struct run_place {
  std::size_t sample, ask;
};

struct run_record {
  std::string command;        // "eval", "sweep" or "fidelity"
  std::string model, name{};  // the model's path and its name
  std::string fingerprint{};  // what tells the model from others of the same shape
  std::size_t layers = 0;
  run_part part{};
  std::vector<recorded_setting> settings{};  // those with a single stage come last. Only some samples are asked under them
  std::vector<recorded_sample> samples{};
  friend bool operator==(const run_record&, const run_record&) = default;

  /// Returns the names of the tasks, in the order of their first samples.
  std::vector<std::string> tasks() const;

  /// Returns the number of asks of every sample: those of the settings without a single stage.
  std::size_t asks_of_all() const;

  /// Returns the index of the first ask of a setting.
  std::size_t first_ask(std::size_t setting) const;

  /// Returns all asks in the order in which a run makes them. Each sample begins with another setting than the sample before, so that all
  /// settings suffer alike when the machine becomes slower.
  std::vector<run_place> in_order() const;
};

/// Finds the answer to an ask; null if there is none.
using found_prediction = std::function<const eval_prediction*(const run_place&)>;

/// The name of the record's file in a folder.
inline constexpr std::string_view record_file_name = "run.json";

std::string json_of(const run_record& record);

/// Writes the record of a run into its folder. If the folder has the finished answers of an earlier run, the record of that run stays until
/// this run writes an answer. So a run that fails before leaves the earlier run whole.
class record_file {
 public:
  /// `answers`: the name of the finished file of answers in the folder. Writes the record at once if there is no such file.
  record_file(const std::string& directory, std::string_view answers, const run_record& record);

  /// Writes the record, unless it is written already. Call this before an answer is written, and before the file of answers is finished.
  void write();

 private:
  std::string path_, text_;
  bool written_ = false;
};

/// Reads a record; `file` names the text in errors. Throws `error` if it is wrong.
run_record parse_run_record(std::string_view text, const std::string& file);

/// Reads the record of a folder. Throws `error` if the folder has none, or a wrong one.
run_record read_run_record(const std::string& directory);

/// Throws `error` if the two records are not those of parts of one run. `directory` and `first_directory` name their folders.
void check_same_run(const run_record& record, const std::string& directory, const run_record& first, const std::string& first_directory);

/// Returns the task with this recorded name. Throws `error` if there is none.
const eval_task& recorded_task(const std::string& name);

/// The hash by which an answer to a question is found. `asked`: as in eval_cost.
std::uint64_t ask_digest(std::string_view model, std::string_view method, std::string_view asked, std::string_view id,
                         const std::vector<std::string>& answers, bool compared);

/// Returns the flags on which a computed answer depends, like " --backend cpu --dtype auto".
std::string how_computed(const backend_flags& flags);

/// Returns what times depend on beside these flags: "2 threads, avx2", or the GPU.
std::string how_timed(const backend_flags& flags, int threads);

/// Throws `error` if `earlier` is not `now`: times that were measured on other threads, instruction sets or GPUs must not be in one mean.
/// `file` and `place` name the earlier result, and `earlier` is empty if its version did not record it.
void check_timed_alike(const std::string& file, const std::string& place, const std::string& now, const std::string& earlier);

}  // namespace program
}  // namespace lazyprune
