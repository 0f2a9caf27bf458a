// SPDX-License-Identifier: MIT
// The answers in the folders of a run's parts, put together. The unit is the sample: it counts if one folder has all of its answers, so
// that its times come from one machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "questions/growing_file.hpp"
#include "questions/results.hpp"
#include "questions/run_record.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>
#include <lazyprune/files/json_lines.hpp>

namespace lazyprune {
namespace program {

/// The answers of one folder. `Answer` is recorded_prediction or recorded_comparison.
template <class Answer>
struct part_folder {
  std::string directory;
  run_record record;
  std::string file;
  std::vector<Answer> answers;

  /// Reads the folder of a part that has ended, was killed, or still runs. Throws `error` if it lacks the record, or if the record
  /// or an answer is wrong. An incomplete last line is skipped.
  static part_folder read(const std::string& directory) {
    part_folder folder{.directory = directory, .record = read_run_record(directory), .file = {}, .answers = {}};
    const auto path = newest_file(file_in(directory, Answer::file_name));
    if (!path) return folder;
    folder.file = path->string();
    line_reader lines(*path, longest_json_line);
    folder.answers = read_json_lines<Answer>(lines, Answer::read, [&](const error& fault) {
      if (lines.complete()) throw fault;
    });
    return folder;
  }
};

/// Describes the samples that are missing; empty if there are none. `missing`: their indices. `folders`: the parts in each folder.
std::string missing_samples(const run_record& record, const std::vector<std::size_t>& missing,
                            const std::vector<std::pair<run_part, std::string>>& folders);

template <class Answer>
class run_results {
 public:
  /// Throws `error` if a folder belongs to another run than `record`, which is the record of `directory`, or has an answer that belongs to
  /// no sample and setting of the run. Also throws `error` if two folders have different answers to a sample.
  run_results(run_record record, const std::string& directory, std::vector<part_folder<Answer>> folders)
      : record_(std::move(record)), folders_(std::move(folders)), from_(record_.samples.size()) {
    std::unordered_map<std::uint64_t, std::vector<run_place>> places;
    for (std::size_t q = 0; q < record_.samples.size(); ++q)
      for (std::size_t a = 0; a < record_.samples[q].asks.size(); ++a) places[record_.samples[q].asks[a]].push_back({q, a});
    for (std::size_t f = 0; f < folders_.size(); ++f) {
      check_same_run(folders_[f].record, folders_[f].directory, record_, directory);
      take(f, places);
    }
  }

  const run_record& record() const { return record_; }

  /// Returns whether one of the folders has all answers to the sample.
  bool has(std::size_t sample) const { return from_[sample].has_value(); }

  /// Returns the answer; null unless `has(place.sample)`.
  const Answer* find(const run_place& place) const {
    const auto& from = from_[place.sample];
    return from ? &folders_[from->folder].answers[from->answers[place.ask]] : nullptr;
  }

  /// Throws `error` if a sample is missing, and says which parts lack samples.
  void check_complete() const {
    std::vector<std::size_t> missing;
    for (std::size_t q = 0; q < from_.size(); ++q)
      if (!has(q)) missing.push_back(q);
    if (missing.empty()) return;
    std::vector<std::pair<run_part, std::string>> parts;
    for (const auto& folder : folders_) parts.emplace_back(folder.record.part, folder.directory);
    throw error("merge", "", "all " + std::to_string(from_.size()) + " samples", missing_samples(record_, missing, parts));
  }

 private:
  struct source {
    std::size_t folder;
    std::vector<std::size_t> answers;  // (asks): indices into the folder's answers
  };

  /// Takes the samples to which folder `f` has all answers.
  void take(std::size_t f, const std::unordered_map<std::uint64_t, std::vector<run_place>>& places) {
    const part_folder<Answer>& folder = folders_[f];
    std::vector<std::vector<std::optional<std::size_t>>> found(record_.samples.size());
    for (std::size_t i = 0; i < folder.answers.size(); ++i) {
      const auto at = places.find(folder.answers[i].digest());
      if (at == places.end())
        throw error(folder.file, "line " + std::to_string(i + 1), "an answer to a sample of " + std::string(record_file_name),
                    "one to another sample, or under other flags");
      for (const run_place& place : at->second) {  // several if a sample is twice in the data; its answers are then the same
        found[place.sample].resize(record_.samples[place.sample].asks.size());
        std::optional<std::size_t>& answer = found[place.sample][place.ask];
        if (answer) check_same(place.sample, folder, i, folder, *answer);
        answer = i;
      }
    }
    for (std::size_t q = 0; q < found.size(); ++q) {
      if (found[q].empty() || std::ranges::any_of(found[q], [](const auto& answer) { return !answer; })) continue;
      source whole{f, {}};
      for (const auto& answer : found[q]) whole.answers.push_back(*answer);
      if (from_[q])
        for (std::size_t a = 0; a < whole.answers.size(); ++a)
          check_same(q, folder, whole.answers[a], folders_[from_[q]->folder], from_[q]->answers[a]);
      else
        from_[q] = std::move(whole);
    }
  }

  void check_same(std::size_t sample, const part_folder<Answer>& folder, std::size_t answer, const part_folder<Answer>& earlier,
                  std::size_t earlier_answer) const {
    if (!folder.answers[answer].same_but_times(earlier.answers[earlier_answer]))
      throw error(folder.file, "line " + std::to_string(answer + 1) + ": " + record_.samples[sample].name(),
                  "the answer of " + earlier.file + ", line " + std::to_string(earlier_answer + 1), "a different one");
  }

  run_record record_;
  std::vector<part_folder<Answer>> folders_;
  std::vector<std::optional<source>> from_;  // (samples)
};

/// Reads the folders, which belong to the run of the first.
template <class Answer>
run_results<Answer> read_results(const std::vector<std::string>& directories) {
  std::vector<part_folder<Answer>> folders;
  for (const std::string& directory : directories) folders.push_back(part_folder<Answer>::read(directory));
  run_record first = folders.front().record;
  return {std::move(first), directories.front(), std::move(folders)};
}

/// Returns for each sample whether this process shall answer it: it is in the part, and none of the folders has all answers to it. Throws
/// `error` if one of the folders is `directory`: its answers may be replaced.
template <class Answer>
std::vector<bool> samples_to_answer(const run_record& record, const std::string& directory, const std::vector<std::string>& finished) {
  std::vector<part_folder<Answer>> folders;
  for (const std::string& other : finished) {
    if (same_file(other, directory)) throw error("--finished", "", "folders of other parts than that of --out", other);
    folders.push_back(part_folder<Answer>::read(other));
  }
  const run_results<Answer> elsewhere(record, directory, std::move(folders));
  std::vector<bool> mine;
  for (std::size_t q = 0; q < record.samples.size(); ++q) mine.push_back(record.part.has(record.samples[q].digest) && !elsewhere.has(q));
  return mine;
}

/// Says on stderr that a part is done.
void tell_of_part(const run_record& record, std::size_t answered);

}  // namespace program
}  // namespace lazyprune
