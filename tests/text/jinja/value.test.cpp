// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/value.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("values know their kind") {
  jinja::budget work(1000);
  CHECK(jinja::value().is_undefined());
  CHECK(jinja::value(jinja::none_type{}).is_none());
  CHECK(*jinja::value(true).integer() == 1);
  CHECK(jinja::value(true).is(jinja::kind::boolean));
  CHECK(jinja::value(2.5).number() == 2.5);
  CHECK(jinja::value(2.5).integer() == nullptr);
  CHECK(jinja::template_text("a").text()->trusted());
  CHECK_FALSE(jinja::user_text("a").text()->trusted());
  CHECK(jinja::make_list({jinja::value(1.0)}, work).sequence()->items.size() == 1);
}

TEST_CASE("dictionaries keep the order of their keys, and find a key among few or many keys") {
  jinja::dict d;
  for (int round = 0; round < 2; ++round)  // the second round sets the same keys again
    for (int i = 0; i < 100; ++i) {
      d.set(jinja::user_text("k" + std::to_string(i)), jinja::value(std::int64_t{round * 100 + i}));
      if (round == 0) REQUIRE(d.find("k" + std::to_string(i)));
      REQUIRE_FALSE(d.find("k100"));
    }
  REQUIRE(d.entries.size() == 100);
  for (int i = 0; i < 100; ++i) {
    CHECK(d.entries[static_cast<std::size_t>(i)].key.text()->bytes() == "k" + std::to_string(i));
    CHECK(*d.find("k" + std::to_string(i))->integer() == 100 + i);
  }
  const jinja::dict copy = d;
  CHECK(*copy.find("k7")->integer() == 107);
}

TEST_CASE("a whole number is found among few or many keys, and the string of its digits is another key") {
  jinja::dict d;
  for (std::int64_t i = 0; i < 20; ++i) {
    d.set(jinja::value(i), jinja::value(i * i));
    REQUIRE(*d.find(jinja::value(i))->integer() == i * i);
    REQUIRE_FALSE(d.find(std::to_string(i)));
    REQUIRE_FALSE(d.find(jinja::value(i + 1)));
  }
  CHECK_FALSE(d.find(jinja::value(jinja::none_type{})));
}

TEST_CASE("nesting of lists has a limit") {
  jinja::budget work(100'000);
  jinja::value v = jinja::make_list({}, work);
  for (std::size_t i = 1; i < jinja::most_height; ++i) v = jinja::make_list({v}, work);
  CHECK(jinja::height_of(v) == jinja::most_height);
  CHECK(error_of([&] { jinja::make_list({v}, work); }) == at("", {"100"}));
  jinja::dict d;
  CHECK(error_of([&] { d.set(jinja::user_text("k"), v); }) == at("", {"100"}));
}
