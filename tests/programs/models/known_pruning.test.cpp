// SPDX-License-Identifier: MIT
#include "models/known_pruning.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>

#include <lazyprune/files/pruning_file.hpp>
#include <lazyprune/policy/schedule/stages.hpp>

#include "test_data.hpp"

TEST_CASE("each calibration in models/known is found by its model's fingerprint") {
  using namespace lazyprune;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "examples/lazyprune/models/known")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path());
    const pruning_file written = pruning_file::read(entry.path());
    REQUIRE(written.heads);
    const auto known = program::known_pruning(written.heads->fingerprint);
    REQUIRE(known);
    CHECK(*known == written);
    const stages shipped = stages::parse(known->stages);
    CHECK(shipped.list().back().after < known->heads->layers);
    ++files;
  }
  CHECK(files > 0);
  CHECK_FALSE(program::known_pruning("0123456789abcdef"));
  CHECK_FALSE(program::known_pruning(""));
}
