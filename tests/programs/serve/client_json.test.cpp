// SPDX-License-Identifier: MIT
#include "serve/client_json.hpp"

#include <doctest/doctest.h>

#include <string>

#include <fault.hpp>

using lazyprune::program::most_keys;
using lazyprune::program::read_client_json;
using lazyprune_test::error_of;

namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string object_of(std::size_t keys) {
  std::string text = "{";
  for (std::size_t i = 0; i < keys; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
  return text + "}";
}

}  // namespace

TEST_CASE("keys keep their order") {
  CHECK(read_client_json(R"({"b":1,"a":[2,{"d":3,"c":4}]})").dump() == R"({"b":1,"a":[2,{"d":3,"c":4}]})");
}

TEST_CASE("JSON that would take much time or stack is refused") {
  for (const std::size_t levels : {65u, 1000000u}) {
    CHECK(error_of([&] { read_client_json(repeated("[", levels) + repeated("]", levels)); }).code == lazyprune::error_code::bad_input);
    CHECK(error_of([&] { read_client_json(repeated("{\"a\":", levels) + "1" + repeated("}", levels)); }).code ==
          lazyprune::error_code::bad_input);
  }
  CHECK_NOTHROW(read_client_json(repeated("[", 64) + repeated("]", 64)));
  CHECK_NOTHROW(read_client_json(object_of(most_keys)));
  for (const std::size_t keys : {most_keys + 1, std::size_t{300000}})
    CHECK(error_of([&] { read_client_json("[{\"in\":" + object_of(keys) + "}]"); }).find("1024 keys") != std::string::npos);
}

TEST_CASE("text that is not strict JSON is refused") {
  for (const std::string text : {"", "{", "[1,]", "{\"a\":1}x", "{\"a\":1,\"a\":2}", "1e999", "nan", "'a'"}) {
    CAPTURE(text);
    CHECK(error_of([&] { read_client_json(text); }).code == lazyprune::error_code::bad_input);
  }
  CHECK(error_of([] { read_client_json(std::string("1\0", 2)); }).where == "request: byte 1");
}
