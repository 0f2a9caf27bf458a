// SPDX-License-Identifier: MIT
// A complaint of the program or the C library: a code and one line of text. Tests compare its code and place exactly, and look for values
// in its sentence. The words of the sentence may change.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace lazyprune_test {

/// A line "FILE: PLACE: expected ..." and its code. As a std::string, it is the line with `before` in front of it.
struct complaint_line : std::string {
  int code;
  std::string where;     // "FILE: PLACE"; either may be empty
  std::string sentence;  // from "expected" on; empty if the line has no "expected"

  complaint_line(int code_, const std::string& line, const std::string& before = "") : std::string(before + line), code(code_) {
    const std::size_t at = (": " + line).find(": expected ");  // the only word of the sentence that tests rely on
    if (at == npos)
      where = line;
    else if (at > 0)
      where = line.substr(0, at - 2);
    sentence = at == npos ? "" : line.substr(at);
  }

  friend std::ostream& operator<<(std::ostream& out, const complaint_line& line) {
    return out << static_cast<const std::string&>(line) << " (" << line.code << ')';
  }
};

/// The complaint that a test expects: its code, its place, and values that occur in its sentence.
struct complaint_at {
  std::string where;
  std::vector<std::string> values{};
  int code = 1;  // the default is the program's exit code and the C library's code for a bad input

  complaint_at(std::string where_, std::vector<std::string> values_ = {}, int code_ = 1)
      : where(std::move(where_)), values(std::move(values_)), code(code_) {}

  friend bool operator==(const complaint_line& line, const complaint_at& wanted) {
    return line.code == wanted.code && line.where == wanted.where && !line.sentence.empty() &&
           std::ranges::all_of(wanted.values, [&](const std::string& value) { return line.sentence.find(value) != line.npos; });
  }
  friend std::ostream& operator<<(std::ostream& out, const complaint_at& wanted) {
    out << "at " << wanted.where << " (" << wanted.code << ')';
    for (const std::string& value : wanted.values) out << ", with " << value;
    return out;
  }
};

}  // namespace lazyprune_test
