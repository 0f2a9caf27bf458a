// SPDX-License-Identifier: MIT
// The lines of a conversation, as they are typed or come through a pipe.
#pragma once

#include <optional>
#include <string>

namespace lazyprune {
namespace program {

class typed_lines {
 public:
  typed_lines();

  /// Whether somebody sits at a terminal.
  bool typed() const { return typed_; }

  /// The next line of stdin, without its end; none after the last, or after Ctrl-C where somebody types. Throws `error` where a line is too
  /// long, one of code io where reading fails.
  std::optional<std::string> next();

 private:
  bool wait() const;

  bool typed_;
  std::string read_;  // what comes after the last line
};

}  // namespace program
}  // namespace lazyprune
