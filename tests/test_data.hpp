// SPDX-License-Identifier: MIT
// The paths of the tests' data: the data that the project ships, and the data that it does not ship (tests/README.md).
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "skip.hpp"

inline std::filesystem::path source_dir() { return LAZYPRUNE_SOURCE_DIR; }
inline std::filesystem::path pocket_model() { return source_dir() / "examples/pocket/model"; }

/// Returns a file or folder of the data that the project does not ship. If it is absent, returns an empty path and notes a skip.
inline std::filesystem::path test_data(const std::string& name) {
  const char* given = std::getenv("LAZYPRUNE_TEST_DATA");
  const std::filesystem::path folder = given ? std::filesystem::path(given) : source_dir().parent_path() / "shared/data";
  if (std::filesystem::exists(folder / name)) return folder / name;
  const std::string data = "test data that we may not ship, in $LAZYPRUNE_TEST_DATA (tests/README.md)";
  lazyprune_test::skip(std::filesystem::exists(folder) ? name + " of the " + data : data);
  return {};
}

/// Returns whether tests use all data, even if many cases test the same thing. `.ci/run --long` sets this mode.
inline bool in_full() { return std::getenv("LAZYPRUNE_TEST_IN_FULL") != nullptr; }

/// Whether tests may run all cases. With sanitizers they may not: each case takes ten times as long, and a sanitizer finds no more in all
/// cases than in some.
#ifdef LAZYPRUNE_TEST_ALL
inline constexpr bool test_all = true;
#else
inline constexpr bool test_all = false;
#endif

/// Returns `nth`, or 1 in full mode without sanitizers. If the result is n, a test of many similar cases runs every n-th of them.
template <class T>
T one_in(T nth) {
  return test_all && in_full() ? T{1} : nth;
}

/// The path of a file that is fetched once for all checkouts.
inline std::filesystem::path cached(const std::string& name) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::filesystem::path caches = cache && *cache ? std::filesystem::path(cache) : std::filesystem::path(home ? home : "") / ".cache";
  return caches / "lazyprune" / name;
}

/// Returns a model that a script in examples/ fetches: the file that the environment variable names, or else the file in the cache. With
/// sanitizers only the variable counts, because the test takes minutes. If there is no such file, returns an empty path and notes a skip. A
/// file that the variable names is not checked.
inline std::filesystem::path fetched_model(const std::string& name, const std::string& variable, const std::string& script) {
  if (const char* named = std::getenv(variable.c_str())) return named;
  if (test_all && std::filesystem::exists(cached(name))) return cached(name);
  lazyprune_test::skip(test_all ? name + " (sh examples/" + script + " fetches it)"
                                : name + ", named by $" + variable + " (it takes minutes with sanitizers)");
  return {};
}

inline std::filesystem::path smollm2() { return fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf", "LAZYPRUNE_SMOLLM2", "smollm2.sh"); }
inline std::filesystem::path gemma3() { return fetched_model("gemma-3-270m-q4_k_m.gguf", "LAZYPRUNE_GEMMA3", "gemma3.sh"); }

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}
