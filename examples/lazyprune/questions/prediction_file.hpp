// SPDX-License-Identifier: MIT
// A file of predictions that grows while a benchmark runs and survives a kill. FILE.unfinished holds the predictions in the order in which
// they were made. It is renamed to FILE when all predictions are made. If FILE is a symbolic link, both files lie in the folder of the
// link's target.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include <lazyprune/eval/sample.hpp>
#include <lazyprune/files/descriptor.hpp>

namespace lazyprune {
namespace program {

class prediction_file {
 public:
  /// `resume`: goes on after the last prediction of an earlier run, finished or not. An incomplete last line is dropped. Throws `error` if
  /// the path cannot be written, another process writes to it, or an existing file does not hold predictions. Also throws `error` if there
  /// is an unfinished file and `resume` is false. Throws `error` with code io if the disk fails.
  prediction_file(std::filesystem::path path, bool resume);
  prediction_file(const prediction_file&) = delete;
  prediction_file& operator=(const prediction_file&) = delete;
  ~prediction_file();

  /// The predictions in the file, in their order.
  const std::vector<eval_prediction>& done() const { return done_; }

  /// True if `commit` will replace a finished file.
  bool replaces() const { return replaces_; }

  /// Adds a prediction. Throws `error` with code io if the disk is full or fails. Earlier predictions stay in the file.
  void add(eval_prediction prediction);

  /// Renames the file to its final name.
  void commit();

  /// Renames the file to its final name, with the predictions in this order: indices into `done()`, each once.
  void commit(std::span<const std::size_t> order);

 private:
  void sync();
  void put(std::string_view line);
  void read(const std::filesystem::path& path);
  void drop_half_line();
  [[noreturn]] void fail(std::string_view expected) const;

  std::filesystem::path path_, target_, unfinished_;  // target_: path_ without symbolic links
  bool untouched_;  // true: FILE has every prediction of the unfinished file, so the destructor removes the unfinished file
  bool replaces_;
  file_descriptor file_;
  std::vector<eval_prediction> done_;
};

}  // namespace program
}  // namespace lazyprune
