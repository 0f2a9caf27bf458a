// SPDX-License-Identifier: MIT
// Reads the lines of a conversation from stdin: typed, or from a pipe.
#pragma once

#include <optional>
#include <string>

namespace lazyprune {
namespace program {

class typed_lines {
 public:
  typed_lines();

  /// True if stdin is a terminal.
  bool typed() const { return typed_; }

  /// Returns the next line of stdin without its line break, and without a byte order mark at the beginning of stdin; nullopt after the last
  /// line or if `interrupted`. Throws `error` if a line is longer than 2^28 bytes, and `error` with code io if reading fails.
  std::optional<std::string> next();

 private:
  std::optional<std::string> read_line();
  bool wait() const;

  bool typed_, first_ = true;
  std::string read_;  // bytes that were read but not yet returned
};

}  // namespace program
}  // namespace lazyprune
