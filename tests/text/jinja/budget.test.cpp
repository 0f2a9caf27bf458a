// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/budget.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "files/support.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("reading and writing bytes costs steps, and running out of steps is an error") {
  jinja::budget work(10);
  work.step(3);
  work.write(16);  // two steps: one for the 16 bytes, and one for the call
  work.read(63);
  CHECK(work.used() == 6);
  CHECK(error_of([&] { work.step(5); }) == at("", {"10"}));
  CHECK(error_of([&] { work.write(std::size_t(-1)); }) == at("", {"10"}));
  work.step(4);
  CHECK(work.used() == 10);
}

TEST_CASE("a level of nesting counts only while its object lives") {
  jinja::budget work(1);
  const auto nest = [&](std::size_t levels) {
    std::vector<std::unique_ptr<jinja::budget::level>> all;
    for (std::size_t i = 0; i < levels; ++i) all.push_back(std::make_unique<jinja::budget::level>(work));
  };
  CHECK(error_of([&] { nest(400); }) == "no error");
  CHECK(error_of([&] { nest(401); }) == at("", {"400"}));
  CHECK(error_of([&] { nest(400); }) == "no error");
}
