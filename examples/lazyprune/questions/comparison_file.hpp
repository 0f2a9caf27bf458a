// SPDX-License-Identifier: MIT
// The results of `fidelity`, one line for each text and setting. The file grows while the texts are compared (growing_file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "questions/growing_file.hpp"

#include <lazyprune/eval/fidelity.hpp>

namespace lazyprune {
inline namespace v0 {
class json_value;
}  // namespace v0

namespace program {

struct recorded_comparison {
  static constexpr std::string_view file_name = "comparisons.jsonl";

  std::uint64_t ask;  // the hash by which the comparison is found, as in recorded_sample::asks
  text_fidelity value;
  std::string timed_on;  // how the times were measured (how_timed); empty: an older record

  static recorded_comparison read(const json_value& object);
  /// Returns the comparison as a line, without a line break.
  std::string line() const;
  std::uint64_t digest() const { return ask; }
  /// Returns whether the comparisons are equal, apart from times and from the name of the text. The name is a path as it was typed.
  bool same_but_times(const recorded_comparison& other) const;
};

class comparison_file {
 public:
  /// Throws `error` as growing_file does, and if an earlier file does not hold comparisons.
  comparison_file(const std::filesystem::path& path, bool resume);

  /// The comparisons in the file, in their order.
  const std::vector<recorded_comparison>& done() const { return done_; }

  /// Adds a comparison. Throws `error` with code io if the disk is full or fails.
  void add(recorded_comparison comparison);

  /// Renames the file to its final name.
  void commit() { file_.commit(); }

 private:
  std::vector<recorded_comparison> done_;
  growing_file file_;  // fills done_
};

}  // namespace program
}  // namespace lazyprune
