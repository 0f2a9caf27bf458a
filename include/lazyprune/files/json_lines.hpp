// SPDX-License-Identifier: MIT
// JSON Lines: a file with one JSON object per line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/line_reader.hpp>

namespace lazyprune {
inline namespace v0 {

/// The most bytes in a line.
inline constexpr std::size_t longest_json_line = std::size_t{1} << 28;

/// Calls read(json_value) for each line that is not empty, and returns the results. A line is bad if it is too long, is not JSON, or if
/// `read` throws `error` for it. The error of a bad line is passed to `on_bad`, and the line is skipped. Without `on_bad`, the error is
/// thrown: "FILE: line 3: answers: expected ..., found ...". Throws `error` of code io if reading fails.
template <class Record, class Read>
std::vector<Record> read_json_lines(line_reader& lines, Read read, const std::function<void(const error&)>& on_bad = {}) {
  std::vector<Record> records;
  for (;;) {
    try {
      const auto line = lines.next();
      if (!line) return records;
      if (line->find_first_not_of(" \t\r") == line->npos) continue;
      records.push_back(read(json_value::parse(*line, lines.name(), longest_json_line, "line " + std::to_string(lines.number()))));
    } catch (const error& fault) {
      if (!on_bad || fault.code() == error_code::io) throw;
      on_bad(fault);
    }
  }
}

}  // namespace v0
}  // namespace lazyprune
