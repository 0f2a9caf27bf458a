// SPDX-License-Identifier: MIT
#include <lazyprune/core/error.hpp>

#include <doctest/doctest.h>

#include <string>

using lazyprune::error;
using lazyprune::error_code;

TEST_CASE("an error prints file, place, expected and found in one line") {
  CHECK(std::string(error("a.json", "byte 7", "a comma", "'}'").what()) == "a.json: byte 7: expected a comma, found '}'");
  CHECK(std::string(error("a.json", "", "a file").what()) == "a.json: expected a file");
  CHECK(std::string(error("", "--threads", "a number", "x").what()) == "--threads: expected a number, found x");
  CHECK(std::string(error("", "", "more").what()) == "expected more");
}

TEST_CASE("an error gives its fields and its code") {
  const error fault("a.json", "byte 7", "a comma", "'}'");
  CHECK(fault.file() == "a.json");
  CHECK(fault.place() == "byte 7");
  CHECK(fault.expected() == "a comma");
  CHECK(fault.found() == "'}'");
  CHECK(fault.code() == error_code::bad_input);
  CHECK(error("disk", "", "room", "none", error_code::io).code() == error_code::io);
  CHECK(name_of(error_code::wrong_order) == "wrong_order");
  CHECK(name_of(error_code::unsupported) == "unsupported");
  CHECK_THROWS_AS(throw error("a", "b", "c"), std::runtime_error);
}

TEST_CASE("an error wrapped with a file name begins with that name; its own file moves into the place, and the rest stays") {
  const error outer("a.json", error("--stages", "stage 2", "a layer", "x", error_code::unsupported));
  CHECK(std::string(outer.what()) == "a.json: --stages: stage 2: expected a layer, found x");
  CHECK(outer.file() == "a.json");
  CHECK(outer.place() == "--stages: stage 2");
  CHECK(outer.expected() == "a layer");
  CHECK(outer.found() == "x");
  CHECK(outer.code() == error_code::unsupported);
  CHECK(error("a.json", error("", "byte 7", "a comma")).place() == "byte 7");
  CHECK(error("a.json", error("b.json", "", "a file")).place() == "b.json");
}

TEST_CASE("the hook sees an error before it is thrown") {
  static std::string seen;
  seen.clear();
  const auto before = lazyprune::set_error_hook([](const error& fault) { seen = fault.what(); });
  CHECK_THROWS_WITH_AS(lazyprune::report_error({"session", "begin", "at least one new token", "none"}),
                       "session: begin: expected at least one new token, found none", error);
  CHECK(seen == "session: begin: expected at least one new token, found none");
  CHECK((lazyprune::set_error_hook(before) != nullptr));
  seen.clear();
  CHECK_THROWS_AS(lazyprune::report_error({"a", "", "b"}), error);
  CHECK(seen.empty());
}

TEST_CASE("line breaks in the fields are escaped, so that an error is one line") {
  CHECK(std::string(error("a\nfile", "", "words", "two\nlines\n").what()) == "a\\x0afile: expected words, found two\\x0alines\\x0a");
  CHECK(std::string(error("a\nb", error("", "x", "y", "z")).what()) == "a\\x0ab: x: expected y, found z");
  CHECK(error("", "", "words", "two\nlines").found() == "two\nlines");
}
