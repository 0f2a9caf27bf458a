// SPDX-License-Identifier: MIT
#include <lazyprune/core/error.hpp>

#include <doctest/doctest.h>

#include <string>

using lazyprune::error;
using lazyprune::io_error;

TEST_CASE("one line: file, place, what was expected, what was found") {
  CHECK(std::string(error("a.json", "byte 7", "a comma", "'}'").what()) == "a.json: byte 7: expected a comma, found '}'");
  CHECK(std::string(error("a.json", "", "a file").what()) == "a.json: expected a file");
  CHECK(std::string(error("", "--threads", "a number", "x").what()) == "--threads: expected a number, found x");
  CHECK(std::string(error("", "", "more").what()) == "expected more");
}

TEST_CASE("a fault in what a file holds names the file first") {
  CHECK(std::string(error("a.json", error("--stages", "", "a layer", "x")).what()) == "a.json: --stages: expected a layer, found x");
}

TEST_CASE("a fault of the machine can be told from bad input, and caught as either") {
  CHECK_THROWS_AS(throw io_error("a", "b", "c"), io_error);
  CHECK_THROWS_AS(throw io_error("a", "b", "c"), error);
  CHECK_THROWS_AS(throw error("a", "b", "c"), std::runtime_error);
}
