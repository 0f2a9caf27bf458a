// SPDX-License-Identifier: MIT
// JSON Lines: a file with one JSON object a line.
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

/// Bytes that a line of JSON Lines may have.
inline constexpr std::size_t longest_json_line = std::size_t{1} << 28;

/// What `read` makes of each line, which is no empty one: read(json_value) returns a Record. Where a line is no JSON, or `read` throws
/// `error`, that is told to `on_bad` ("FILE: line 3: answers: expected ..., found ...") and the line left out; without `on_bad` it is
/// thrown. Throws one of code io where reading fails.
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
