// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/gguf_keys.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("gguf_keys reads the keys of an architecture, and small tensors of divisors") {
  using namespace lazyprune_test;
  const temporary_folder folder;
  std::vector<lazyprune::gguf_file> parts;
  parts.emplace_back(lazyprune::mapped_file(folder.write(
      "f.gguf", gguf_model({gguf_key("phi3.block_count", 3u), gguf_key("phi3.odd", 0u)},
                           {{"d", {2}, 0, bytes_of_number(1.5f) + bytes_of_number(2.0f)}, {"wrong", {1}, 0, bytes_of_number(-1.0f)}}))));
  const lazyprune::gguf_keys keys(parts, "phi3");
  CHECK(keys.key("block_count") == "phi3.block_count");
  CHECK(keys.size("block_count") == 3);
  CHECK_FALSE(keys.size_if("head_count"));
  CHECK(error_of([&] { keys.size("odd"); }).ends_with("metadata: phi3.odd: expected a whole number from 1 to 1048576, found 0"));
  CHECK(keys.divisors("d", 2) == std::vector<double>{1.5, 2.0});
  CHECK(keys.divisors("none", 2).empty());
  CHECK(error_of([&] { keys.divisors("d", 3); }).ends_with("tensor d: expected shape [3], found [2]"));
  CHECK(error_of([&] { keys.divisors("wrong", 1); }).ends_with("tensor wrong: expected only numbers above 0, found another number"));
}
