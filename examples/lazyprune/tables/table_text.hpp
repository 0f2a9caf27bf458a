// SPDX-License-Identifier: MIT
// Tables in Markdown, legible as they are, and the fields of CSV.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/eval/summary.hpp>
#include "tables/fixed_text.hpp"

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The mean and half the width of its interval, both times `scale`; nothing where there is none.
inline std::string with_interval(const std::optional<estimate>& e, double scale, int digits, std::string_view unit = "") {
  if (!e) return {};
  const double half = scale * (e->ci95.high - e->ci95.low) / 2;
  return fixed_text(scale * e->mean, digits).append(" \xc2\xb1 ").append(fixed_text(half, digits)).append(unit);
}

/// A text in quotes (RFC 4180).
inline std::string csv_text(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

/// rows[0]: the heads of the columns. The first `texts` columns stand at the left, the others are numbers. Columns without anything below
/// their heads are left out, though not those of texts.
inline std::string markdown_table(const std::vector<std::vector<std::string>>& rows, std::size_t texts) {
  const auto escaped = [](const std::string& text) {
    std::string cell;
    for (const char c : text) (cell += c == '|' ? "\\" : "") += c;
    return cell;
  };
  const auto width = [](std::string_view text) { return characters_of(text).size(); };
  std::vector<std::size_t> widths;  // 0: left out
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    const bool empty = std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) { return row[c].empty(); });
    widths.push_back(empty && c >= texts ? 0 : 3);
    for (const auto& row : rows)
      if (widths[c] > 0) widths[c] = std::max(widths[c], width(escaped(row[c])));
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += '|';
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] == 0) continue;
      const std::string cell = escaped(rows[r][c]), space(widths[c] - width(cell), ' ');
      out += ' ' + (c < texts ? cell + space : space + cell) + " |";
    }
    out += '\n';
    if (r > 0) continue;
    out += '|';
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (widths[c] > 0) out += c < texts ? " " + std::string(widths[c], '-') + " |" : " " + std::string(widths[c] - 1, '-') + ": |";
    out += '\n';
  }
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
