// SPDX-License-Identifier: MIT
// Where the tests' data lies: what the project ships, and what it does not (see the README, "Tests").
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

inline std::filesystem::path source_dir() { return LAZYPRUNE_SOURCE_DIR; }
inline std::filesystem::path pocket_model() { return source_dir() / "examples/pocket/model"; }

/// A file or folder of the data that others made. Says so and returns an empty path where it is absent: the test then has nothing to do.
inline std::filesystem::path test_data(const std::string& name) {
  const char* given = std::getenv("LAZYPRUNE_TEST_DATA");
  const std::filesystem::path path = (given ? std::filesystem::path(given) : source_dir().parent_path() / "shared/data") / name;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("skipped: " << path.string() << " is absent (no test data)");
  return {};
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}
