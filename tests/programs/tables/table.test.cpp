// SPDX-License-Identifier: MIT
#include "tables/table.hpp"

#include <doctest/doctest.h>

using namespace lazyprune::program;

namespace {

const table every_kind{
    .columns =
        {{"name"}, {"n"}, {"x", column_kind::estimate}, {"ci", column_kind::interval}, {"at"}, {"list"}, {"all", column_kind::json_alone}},
    .rows = {{"a \"b\"", std::uint64_t{3}, lazyprune::estimate{0.5, {0.25, 1}}, lazyprune::interval{1, 2}, nullptr,
              std::vector<double>{1, 0.5}, std::vector<std::vector<double>>{{1}, {2}}},
             {"c", number_as_text{"1"}, cell(), cell(), 2.0, cell(), cell()}}};

}  // namespace

TEST_CASE("CSV: a column for each number; null and unknown values are empty") {
  CHECK(to_csv(every_kind) ==
        "name,n,x,x_low,x_high,ci_low,ci_high,at,list\n"
        "\"a \"\"b\"\"\",3,0.5,0.25,1.0,1.0,2.0,,1.0 0.5\n"
        "\"c\",1,,,,,,2.0,\n");
  CHECK(text_of(every_kind, table_format::csv) == to_csv(every_kind));
}

TEST_CASE("JSON: null is written, unknown values are left out") {
  CHECK(text_of(every_kind, table_format::json) == R"([
 {
  "name": "a \"b\"",
  "n": 3,
  "x": 0.5,
  "x_ci95": [
   0.25,
   1.0
  ],
  "ci": [
   1.0,
   2.0
  ],
  "at": null,
  "list": [
   1.0,
   0.5
  ],
  "all": [
   [
    1.0
   ],
   [
    2.0
   ]
  ]
 },
 {
  "name": "c",
  "n": 1,
  "at": 2.0
 }
]
)");
  CHECK(to_json({}) == "[]\n");
}

TEST_CASE("Markdown: columns are aligned, bars and line breaks in texts are escaped, empty columns are left out unless they must appear") {
  CHECK(markdown_table({{.head = "text", .at = align::none},
                        {.head = "left", .at = align::left, .least_width = 6},
                        {.head = "empty"},
                        {.head = "n"},
                        {.head = "stays", .even_if_empty = true}},
                       {{"a|b", "é", "", "1.5", ""}, {"c", "", "", "10", ""}}) ==
        "| text | left   |   n | stays |\n"
        "| ---- | :----- | --: | ----: |\n"
        "| a\\|b | é      | 1.5 |       |\n"
        "| c    |        |  10 |       |\n");
  CHECK(markdown_table({{.head = "a\nb", .at = align::none}}, {{"c\r\nd"}}) ==
        "| a\\x0ab     |\n"
        "| ---------- |\n"
        "| c\\x0d\\x0ad |\n");
}

TEST_CASE("formats are found by name, and a mean is written with half the width of its interval") {
  CHECK(find_table_format("csv") == table_format::csv);
  CHECK_FALSE(find_table_format("xml"));
  CHECK(with_interval(lazyprune::estimate{0.5, {0.25, 0.75}}, 100, 1, " %") == "50.0 \xc2\xb1 25.0 %");
  CHECK(with_interval({}, 1, 1).empty());
}
