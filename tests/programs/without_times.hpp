// SPDX-License-Identifier: MIT
// Results of the program without their times, which differ from run to run.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/program.hpp"

namespace lazyprune_test {

using csv_row = std::map<std::string, std::string>;

inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

/// The rows of a table, each by the names of its columns.
inline std::vector<csv_row> csv_table(const std::string& file) {
  const std::vector<std::string> lines = lines_of(file_text(file));
  REQUIRE(!lines.empty());
  const std::vector<std::string> keys = csv_fields(lines.front());
  std::vector<csv_row> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> values = csv_fields(lines[i]);
    REQUIRE(values.size() == keys.size());
    csv_row& entry = rows.emplace_back();
    for (std::size_t k = 0; k < keys.size(); ++k) entry[keys[k]] = values[k];
  }
  return rows;
}

/// The rows of sweep.csv without their times.
inline std::vector<csv_row> rows_without_times(const std::string& file) {
  std::vector<csv_row> rows = csv_table(file);
  for (csv_row& entry : rows)
    std::erase_if(entry, [](const auto& field) {
      return std::ranges::any_of(std::vector<std::string>{"ttft_s", "dense_ttft_s", "speedup_", "total_s"},
                                 [&](const std::string& start) { return field.first.starts_with(start); });
    });
  return rows;
}

/// The predictions without their times.
inline std::vector<nlohmann::json> without_times(const std::string& predictions) {
  std::vector<nlohmann::json> lines;
  for (const std::string& text : lines_of(predictions)) {
    nlohmann::json line = nlohmann::json::parse(text);
    line["run"].erase("ttft_s");
    line["run"].erase("dense_ttft_s");
    line["run"].erase("total_s");
    line["run"].erase("timed_on");
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace lazyprune_test
