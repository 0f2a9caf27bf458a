// SPDX-License-Identifier: MIT
// The one exception type: which file or argument, which place in it, what was expected there, what was found.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace lazyprune {
inline namespace v0 {

/// Bad input or bad arguments. `what()` reads "FILE: WHERE: expected EXPECTED, found FOUND"; parts left empty are left out.
class error : public std::runtime_error {
 public:
  error(std::string_view file, std::string_view where, std::string_view expected, std::string_view found = {})
      : std::runtime_error(line(file, where, expected, found)) {}

  /// The same fault, in what was read from this file.
  error(std::string_view file, const error& fault) : std::runtime_error(std::string(file) + ": " + fault.what()) {}

 private:
  static std::string line(std::string_view file, std::string_view where, std::string_view expected, std::string_view found) {
    std::string text;
    for (const std::string_view part : {file, where})
      if (!part.empty()) text.append(part).append(": ");
    text.append("expected ").append(expected);
    if (!found.empty()) text.append(", found ").append(found);
    return text;
  }
};

/// The machine, not the input, is at fault: a read or write that failed, memory that could not be had.
class io_error : public error {
 public:
  using error::error;
};

}  // namespace v0
}  // namespace lazyprune
