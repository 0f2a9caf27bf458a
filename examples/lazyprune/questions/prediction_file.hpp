// SPDX-License-Identifier: MIT
// A file of predictions that grows while a benchmark runs and survives a kill (growing_file).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "questions/growing_file.hpp"

#include <lazyprune/eval/sample.hpp>

namespace lazyprune {
namespace program {

class prediction_file {
 public:
  /// Throws `error` as growing_file does, and if an earlier file does not hold predictions.
  prediction_file(const std::filesystem::path& path, bool resume);

  /// The predictions in the file, in their order.
  const std::vector<eval_prediction>& done() const { return done_; }

  /// True if `commit` will replace a finished file.
  bool replaces() const { return file_.replaces(); }

  /// Adds a prediction. Throws `error` with code io if the disk is full or fails. Earlier predictions stay in the file.
  void add(eval_prediction prediction);

  /// Renames the file to its final name.
  void commit() { file_.commit(); }

  /// Renames the file to its final name, with the predictions in this order: indices into `done()`, each once.
  void commit(std::span<const std::size_t> order);

 private:
  std::vector<eval_prediction> done_;
  growing_file file_;  // fills done_
};

}  // namespace program
}  // namespace lazyprune
