// SPDX-License-Identifier: MIT
#include "tables/table.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include <lazyprune/files/c_locale.hpp>
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};
template <class... F>
overloaded(F...) -> overloaded<F...>;

json ends(const interval& i) { return {i.low, i.high}; }

json object_of(const table& t, const std::vector<cell>& row) {
  const lazyprune::detail::c_locale numbers;
  json object = json::object();
  for (std::size_t c = 0; c < row.size(); ++c) {
    const std::string& key = t.columns[c].key;
    std::visit(overloaded{[](std::monostate) {}, [&](const number_as_text& number) { object[key] = json::parse(number.digits); },
                          [&](const estimate& e) {
                            object[key] = e.mean;
                            object[key + "_ci95"] = ends(e.ci95);
                          },
                          [&](const interval& i) { object[key] = ends(i); }, [&](const auto& value) { object[key] = value; }},
               row[c]);
  }
  return object;
}

std::string in_csv(double value) { return json(value).dump(); }

std::string csv_text(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

std::vector<std::string> csv_heads(const column& c) {
  switch (c.kind) {
    case column_kind::value:
      return {c.key};
    case column_kind::estimate:
      return {c.key, c.key + "_low", c.key + "_high"};
    case column_kind::interval:
      return {c.key + "_low", c.key + "_high"};
    case column_kind::json_alone:
      break;
  }
  return {};
}

std::vector<std::string> csv_fields(const cell& value) {
  using fields = std::vector<std::string>;
  return std::visit(
      overloaded{[](std::monostate) { return fields{}; }, [](std::nullptr_t) { return fields{}; },
                 [](const std::string& text) { return fields{csv_text(text)}; },
                 [](std::uint64_t number) { return fields{std::to_string(number)}; }, [](double number) { return fields{in_csv(number)}; },
                 [](const number_as_text& number) { return fields{number.digits}; },
                 [](const estimate& e) {
                   return fields{in_csv(e.mean), in_csv(e.ci95.low), in_csv(e.ci95.high)};
                 },
                 [](const interval& i) {
                   return fields{in_csv(i.low), in_csv(i.high)};
                 },
                 [](const std::vector<double>& list) {
                   std::string field;
                   for (const double number : list) field += (field.empty() ? "" : " ") + in_csv(number);
                   return fields{field};
                 },
                 [](const std::vector<std::vector<double>>&) { return fields{}; }},
      value);
}

/// Returns the text as it stands in a cell of a Markdown table: in one line, without a bar that would end the cell.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string rule(align at, std::size_t width) {
  const std::string dashes(width - (at != align::none), '-');
  return at == align::none ? dashes : at == align::left ? ':' + dashes : dashes + ':';
}

}  // namespace

std::optional<table_format> find_table_format(std::string_view name) {
  if (name == "md") return table_format::md;
  if (name == "json") return table_format::json;
  if (name == "csv") return table_format::csv;
  return std::nullopt;
}

std::string to_json(const table& t) {
  json list = json::array();
  for (const std::vector<cell>& row : t.rows) list.push_back(object_of(t, row));
  return list.dump(1, ' ', false, json::error_handler_t::replace) + '\n';
}

std::string to_csv(const table& t) {
  std::string out;
  const auto add_line = [&](std::size_t columns, auto fields_of) {
    const char* before = "";
    for (std::size_t c = 0; c < columns; ++c)
      for (const std::string& field : fields_of(c)) {
        out.append(before).append(field);
        before = ",";
      }
    out += '\n';
  };
  add_line(t.columns.size(), [&](std::size_t c) { return csv_heads(t.columns[c]); });
  for (const std::vector<cell>& row : t.rows)
    add_line(row.size(), [&](std::size_t c) {
      std::vector<std::string> fields = csv_fields(row[c]);
      fields.resize(csv_heads(t.columns[c]).size());
      return fields;
    });
  return out;
}

std::string text_of(const table& t, table_format format) { return format == table_format::json ? to_json(t) : to_csv(t); }

std::string markdown_table(const std::vector<markdown_column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;  // 0: the column is left out
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::size_t& width = widths.emplace_back(std::max(columns[c].least_width, columns_of(escaped(columns[c].head))));
    for (const auto& row : rows) width = std::max(width, columns_of(escaped(row[c])));
    const bool empty = std::ranges::all_of(rows, [&](const auto& row) { return row[c].empty(); });
    if (empty && !columns[c].even_if_empty) width = 0;
  }
  std::string out;
  const auto add_line = [&](auto text_of) {
    out += '|';
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (widths[c] > 0) out.append(" ").append(text_of(c)).append(" |");
    out += '\n';
  };
  const auto add_row = [&](auto text_of) {
    add_line([&](std::size_t c) {
      const std::string text = escaped(text_of(c));
      return columns[c].at == align::right ? right(text, widths[c]) : left(text, widths[c]);
    });
  };
  add_row([&](std::size_t c) { return columns[c].head; });
  add_line([&](std::size_t c) { return rule(columns[c].at, widths[c]); });
  for (const auto& row : rows) add_row([&](std::size_t c) { return row[c]; });
  return out;
}

std::vector<markdown_column> markdown_columns(std::size_t texts, const std::vector<std::string>& heads) {
  std::vector<markdown_column> columns;
  for (const std::string& head : heads) {
    const bool is_text = columns.size() < texts;
    columns.push_back({.head = head, .at = is_text ? align::none : align::right, .even_if_empty = is_text});
  }
  return columns;
}

std::string with_interval(const std::optional<estimate>& e, double scale, int digits, std::string_view unit) {
  if (!e) return {};
  const double half = scale * (e->ci95.high - e->ci95.low) / 2;
  return fixed(scale * e->mean, digits).append(" \xc2\xb1 ").append(fixed(half, digits)).append(unit);
}

}  // namespace program
}  // namespace lazyprune
