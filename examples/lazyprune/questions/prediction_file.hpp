// SPDX-License-Identifier: MIT
// A file of predictions that grows while a benchmark runs, and outlives an end by force: FILE.unfinished has every prediction that was
// made, as they came, and becomes FILE when all are. Where FILE is a link, both are in the folder that it leads to.
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
  /// `resume`: goes on where an earlier run was ended, or after the last prediction of a file that was finished. A line that the end cut in
  /// two is dropped. Throws `error` where the name cannot be written to, another process writes there, what is there is no file of
  /// predictions, or there is an unfinished file and no `resume`; one of code io where the disk fails.
  prediction_file(std::filesystem::path path, bool resume);
  prediction_file(const prediction_file&) = delete;
  prediction_file& operator=(const prediction_file&) = delete;
  ~prediction_file();

  /// Those that are in the file, in their order.
  const std::vector<eval_prediction>& done() const { return done_; }

  /// Whether a finished file of that name will be replaced.
  bool replaces() const { return replaces_; }

  /// Throws one of code io where there is no room, or the disk fails. What was added before stays.
  void add(eval_prediction prediction);

  /// Gives the file its name.
  void commit();

  /// Gives the file its name, with the predictions in this order: of each, its place in `done()`, every one once.
  void commit(std::span<const std::size_t> order);

 private:
  void sync();
  void put(std::string_view line);
  void read(const std::filesystem::path& path);
  void drop_half_line();
  [[noreturn]] void fail(std::string_view expected) const;

  std::filesystem::path path_, target_, unfinished_;  // target_: where the links of path_ lead
  bool untouched_;  // nothing stands in the unfinished file that was not elsewhere before: it goes with us
  bool replaces_;
  file_descriptor file_;
  std::vector<eval_prediction> done_;
};

}  // namespace program
}  // namespace lazyprune
