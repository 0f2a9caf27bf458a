// SPDX-License-Identifier: MIT
#include <lazyprune/core/flag_text.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

using namespace lazyprune;

TEST_CASE("a text counts as a number only if all of it is one") {
  CHECK(number_in<std::uint32_t>("0") == 0u);
  CHECK(number_in<std::uint32_t>("4294967295") == 4294967295u);
  for (const char* bad : {"", " ", "4294967296", "-1", "+1", " 1", "1 ", "1x", "0x10", "1.0", "1e3"}) {
    CAPTURE(bad);
    CHECK(!number_in<std::uint32_t>(bad));
  }
  CHECK(number_in<std::int32_t>("-7") == -7);
  CHECK(number_in<double>("0.1") == 0.1);
  CHECK(number_in<double>("1e-4") == 1e-4);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "1,5", "0.5f", "--1", "."}) {
    CAPTURE(bad);
    CHECK(!number_in<double>(bad));
  }
}

TEST_CASE("the text of a number reads back as the same number") {
  for (const double value : {0.0, 0.1, 1.0 / 3.0, 1e-300, 12345678.0, std::numeric_limits<double>::max()})
    CHECK(number_in<double>(text_of_number(value)) == value);
  for (const float value : {0.1f, 1.0f / 3.0f, 16777217.0f}) CHECK(number_in<float>(text_of_number(value)) == value);
  CHECK(text_of_number(0.7) == "0.7");
  CHECK(text_of_number(0.7f) == "0.7");
  CHECK(text_of_number(std::uint64_t{18446744073709551615u}) == "18446744073709551615");
}

TEST_CASE("one_of_names lists the elements, or what the projection returns for them") {
  CHECK(one_of_names(std::vector<std::string_view>{"a", "b", "c"}) == "one of a, b, c");
  CHECK(one_of_names(std::vector<std::string>{"a"}) == "one of a");
  CHECK(one_of_names(std::vector{7, 8}, [](int n) { return std::to_string(n); }) == "one of 7, 8");
}

TEST_CASE("split gives every piece, empty ones too") {
  using pieces = std::vector<std::string_view>;
  CHECK(split("", ',') == pieces{});
  CHECK(split("a", ',') == pieces{"a"});
  CHECK(split("a,b", ',') == pieces{"a", "b"});
  CHECK(split(",a,,b,", ',') == pieces{"", "a", "", "b", ""});
}
