// SPDX-License-Identifier: MIT
#include <lazyprune/policy/position_spans.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include <fault.hpp>

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;

using spans = std::vector<position_span>;

spans list_of(const position_spans& all) { return {all.list().begin(), all.list().end()}; }

fault span_fault(const std::string& text) {
  return error_of([&] { position_spans::parse(text); });
}

}  // namespace

TEST_CASE("spans are sorted, and spans that overlap or touch are merged") {
  CHECK(list_of(position_spans{{900, 930}, {0, 63}}) == spans{{0, 63}, {900, 930}});
  CHECK(list_of(position_spans{{4, 9}, {0, 5}, {10, 12}, {6, 7}}) == spans{{0, 12}});
  CHECK(list_of(position_spans{{0, 3}, {5, 5}}) == spans{{0, 3}, {5, 5}});
  constexpr position most = std::numeric_limits<position>::max();
  CHECK(list_of(position_spans{{0, most}, {most, most}}) == spans{{0, most}});
  CHECK(list_of(position_spans{}).empty());
  CHECK(error_of([&] { position_spans{{3, 2}}; }) == at("positions: 3-2"));
}

TEST_CASE("parse reads spans, and reads the result of text() as the same spans") {
  CHECK(list_of(position_spans::parse("0-63,900-930")) == spans{{0, 63}, {900, 930}});
  CHECK(list_of(position_spans::parse("7")) == spans{{7, 7}});
  CHECK(list_of(position_spans::parse("")).empty());
  for (const char* text : {"", "7", "0-63,900-930", "0,2,4-4294967295"}) {
    CHECK(position_spans::parse(text).text() == text);
    CHECK(position_spans::parse(position_spans::parse(text).text()) == position_spans::parse(text));
  }
  CHECK(position_spans::parse("5-6,1-4").text() == "1-6");
}

TEST_CASE("parse refuses other texts and names the wrong piece") {
  CHECK(span_fault("0-63,") == at("positions: 0-63,"));
  CHECK(span_fault("9-3") == at("positions: 9-3", {"\"9-3\""}));
  CHECK(span_fault("1,a-3") == at("positions: 1,a-3", {"\"a-3\""}));
  CHECK(span_fault("-3") == at("positions: -3", {"\"-3\""}));
  CHECK(span_fault("1-2-3") == at("positions: 1-2-3", {"\"1-2-3\""}));
  CHECK(error_of([] { position_spans::parse("4,", "--keep"); }) == at("--keep: 4,"));
  CHECK(span_fault("4294967296") == at("positions: 4294967296", {"\"4294967296\""}));
}
