// SPDX-License-Identifier: MIT
// Which of the backend's instruction sets, its paths, a test computes with: the one that the environment's LAZYPRUNE_ISA names, as in the
// program. A case whose result depends on it is marked ON_EVERY_PATH: ctest then runs it once for each path, in entries named FILE@PATH.
#pragma once

#include <lazyprune/backend/execution.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

/// After the name of a test case. tests/CMakeLists.txt looks for this word.
#define ON_EVERY_PATH *doctest::test_suite("every path")
/// The same where it needs what is not everywhere (skip.hpp): entries named FILE+WHAT@PATH.
#define ON_EVERY_PATH_NEEDS(what) *doctest::test_suite("every path needs " what)

namespace lazyprune_test {

/// What the variable names; none where it is empty or absent.
inline std::optional<lazyprune::isa> named_path() {
  const char* name = std::getenv("LAZYPRUNE_ISA");
  if (!name || !*name) return std::nullopt;
  for (const lazyprune::isa i : lazyprune::every_isa)
    if (name == name_of(i)) return i;
  throw std::invalid_argument(std::string("LAZYPRUNE_ISA: no instruction set is called ") + name);
}

/// What a test makes its backend from, unless it names the instructions itself. One thread where it does not say how many, since results do
/// not depend on them and ctest runs several tests at once.
inline lazyprune::execution tested_execution(lazyprune::execution e = {}) {
  if (e.threads == 0) e.threads = 1;
  e.instructions = named_path();
  return e;
}

}  // namespace lazyprune_test
