// SPDX-License-Identifier: MIT
// Writes every table of the program: Markdown for people, JSON and CSV for programs.
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

/// Returns the format with this name; nullopt if there is none.
std::optional<table_format> find_table_format(std::string_view name);

/// How a column with the key KEY is written in CSV. In JSON every column is one member, KEY. An estimate has a second member, KEY_ci95,
/// with the value [low, high].
enum class column_kind : std::uint8_t {
  value,      // one column, KEY; the numbers of a list are separated by spaces
  estimate,   // three columns: KEY, KEY_low and KEY_high
  interval,   // two columns: KEY_low and KEY_high
  json_alone  // no column
};

struct column {
  std::string key;
  column_kind kind = column_kind::value;
};

/// A number that is written with the same digits as in a flag.
struct number_as_text {
  std::string digits;
};

/// A value of a table. An unknown value (monostate) is left out of JSON; a null (nullptr_t) is null in JSON. Both are empty in CSV.
using cell = std::variant<std::monostate, std::nullptr_t, std::string, std::uint64_t, double, number_as_text, estimate, interval,
                          std::vector<double>, std::vector<std::vector<double>>>;

/// Returns the cell of the value, or an unknown cell if there is no value.
template <class T>
cell cell_of(const std::optional<T>& value) {
  return value ? cell(*value) : cell();
}

/// Each row has one cell per column.
struct table {
  std::vector<column> columns;
  std::vector<std::vector<cell>> rows;
};

/// Writes a JSON list with one object per row.
std::string to_json(const table& t);

/// Writes CSV (RFC 4180, but with Unix line ends): a line of keys, then one line per row. All texts are in quotes.
std::string to_csv(const table& t);

/// Writes the table in JSON or CSV.
std::string text_of(const table& t, table_format format);

enum class align : std::uint8_t { none, left, right };  // none: left, without an alignment mark in the Markdown

/// A column of a table for people.
struct markdown_column {
  std::string head;
  align at = align::right;
  std::size_t least_width = 3;
  bool even_if_empty = false;  // false: the column is left out if all its cells are empty
};

/// Writes a Markdown table with aligned columns, legible as plain text. Each row has one text per column.
std::string markdown_table(const std::vector<markdown_column>& columns, const std::vector<std::vector<std::string>>& rows);

/// Makes one column per head. The first `texts` columns hold text and are never left out; the others hold numbers.
std::vector<markdown_column> markdown_columns(std::size_t texts, const std::vector<std::string>& heads);

/// Writes the mean and half the width of its interval, both multiplied by `scale`. Returns an empty text if there is no estimate.
std::string with_interval(const std::optional<estimate>& e, double scale, int digits, std::string_view unit = "");

}  // namespace program
}  // namespace lazyprune
