// SPDX-License-Identifier: MIT
// The one writer of tables: Markdown for people, JSON and CSV for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <lazyprune/eval/estimate.hpp>

namespace lazyprune {
namespace program {

enum class table_format : std::uint8_t { md, json, csv };

/// The format of that name; none where there is none.
std::optional<table_format> find_table_format(std::string_view name);

/// What a column is in CSV. In JSON every column is the member KEY; an estimate also the member KEY_ci95, [low, high].
enum class column_kind : std::uint8_t {
  value,      // one column, KEY; the numbers of a list have spaces between them
  estimate,   // three: KEY, KEY_low and KEY_high
  interval,   // two: KEY_low and KEY_high
  json_alone  // none
};

struct column {
  std::string key;
  column_kind kind = column_kind::value;
};

/// A number as it was typed, or as flags write it.
struct number_as_text {
  std::string digits;
};

/// A value of a table. Not known (monostate), it is left out of JSON, and empty in CSV; null is told in JSON, and empty in CSV.
using cell = std::variant<std::monostate, std::nullptr_t, std::string, std::uint64_t, double, number_as_text, estimate, interval,
                          std::vector<double>, std::vector<std::vector<double>>>;

/// The cell of a value that may not be known.
template <class T>
cell cell_of(const std::optional<T>& value) {
  return value ? cell(*value) : cell();
}

/// Each row has a cell a column.
struct table {
  std::vector<column> columns;
  std::vector<std::vector<cell>> rows;
};

/// Writes a list, one object a row.
std::string to_json(const table& t);

/// Writes RFC 4180, with ends of lines as on Unix: a line of keys, then a line a row. All texts are in quotes.
std::string to_csv(const table& t);

/// Writes the table in JSON or CSV.
std::string text_of(const table& t, table_format format);

enum class align : std::uint8_t { none, left, right };  // none: at the left, without a word of it to Markdown

/// A column of a table for people.
struct markdown_column {
  std::string head;
  align at = align::right;
  std::size_t least_width = 3;
  bool even_if_empty = false;  // else a column without anything below its head is left out
};

/// Writes a table that is legible as it is. Each row has a text a column.
std::string markdown_table(const std::vector<markdown_column>& columns, const std::vector<std::vector<std::string>>& rows);

/// `texts` columns with these heads at the left, which always stand; the others are numbers.
std::vector<markdown_column> markdown_columns(std::size_t texts, const std::vector<std::string>& heads);

/// The mean and half the width of its interval, both times `scale`; nothing where there is none.
std::string with_interval(const std::optional<estimate>& e, double scale, int digits, std::string_view unit = "");

}  // namespace program
}  // namespace lazyprune
