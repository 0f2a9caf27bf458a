// SPDX-License-Identifier: MIT
#include <lazyprune/policy/position_spans.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

namespace {

using namespace lazyprune;

using spans = std::vector<position_span>;

spans list_of(const position_spans& all) { return {all.list().begin(), all.list().end()}; }

std::string span_fault(const std::string& text) {
  try {
    position_spans::parse(text);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("spans are put in order, and those that overlap or touch become one") {
  CHECK(list_of(position_spans{{900, 930}, {0, 63}}) == spans{{0, 63}, {900, 930}});
  CHECK(list_of(position_spans{{4, 9}, {0, 5}, {10, 12}, {6, 7}}) == spans{{0, 12}});
  CHECK(list_of(position_spans{{0, 3}, {5, 5}}) == spans{{0, 3}, {5, 5}});
  constexpr position most = std::numeric_limits<position>::max();
  CHECK(list_of(position_spans{{0, most}, {most, most}}) == spans{{0, most}});
  CHECK(list_of(position_spans{}).empty());
  CHECK_THROWS_WITH_AS((position_spans{{3, 2}}), "positions: 3-2: expected FIRST-LAST with FIRST at most LAST", error);
}

TEST_CASE("text: what it reads, and the text that reads back the same") {
  CHECK(list_of(position_spans::parse("0-63,900-930")) == spans{{0, 63}, {900, 930}});
  CHECK(list_of(position_spans::parse("7")) == spans{{7, 7}});
  CHECK(list_of(position_spans::parse("")).empty());
  for (const char* text : {"", "7", "0-63,900-930", "0,2,4-4294967295"}) {
    CHECK(position_spans::parse(text).text() == text);
    CHECK(position_spans::parse(position_spans::parse(text).text()) == position_spans::parse(text));
  }
  CHECK(position_spans::parse("5-6,1-4").text() == "1-6");
}

TEST_CASE("text: what it refuses, naming the piece") {
  const std::string expected = ": expected FIRST-LAST with FIRST at most LAST, like 0-63, found ";
  CHECK(span_fault("0-63,") == "positions: 0-63," + expected + "nothing");
  CHECK(span_fault("9-3") == "positions: 9-3" + expected + "\"9-3\"");
  CHECK(span_fault("1,a-3") == "positions: 1,a-3" + expected + "\"a-3\"");
  CHECK(span_fault("-3") == "positions: -3" + expected + "\"-3\"");
  CHECK(span_fault("1-2-3") == "positions: 1-2-3" + expected + "\"1-2-3\"");
  CHECK_THROWS_WITH_AS(position_spans::parse("4,", "--keep"), ("--keep: 4," + expected + "nothing").c_str(), error);
  CHECK(span_fault("4294967296") == "positions: 4294967296" + expected + "\"4294967296\"");
}
