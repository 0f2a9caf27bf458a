// SPDX-License-Identifier: MIT
// Chooses the instruction set ("path") that a test computes with. The environment variable LAZYPRUNE_ISA names it, as in the program. A
// case whose result depends on the path is marked ON_EVERY_PATH. ctest runs it once for each path, in entries named FILE@PATH.
#pragma once

#include <lazyprune/backend/execution.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

/// Write this after the name of a test case. tests/CMakeLists.txt looks for this word.
#define ON_EVERY_PATH *doctest::test_suite("every path")
/// Write this in place of ON_EVERY_PATH if the case also needs something not available everywhere (skip.hpp). The entries of such a case
/// are named FILE+WHAT@PATH.
#define ON_EVERY_PATH_NEEDS(what) *doctest::test_suite("every path needs " what)

namespace lazyprune_test {

/// The instruction set that the variable names; nullopt if it is empty or absent.
inline std::optional<lazyprune::isa> named_path() {
  const char* name = std::getenv("LAZYPRUNE_ISA");
  if (!name || !*name) return std::nullopt;
  for (const lazyprune::isa i : lazyprune::every_isa)
    if (name == name_of(i)) return i;
  throw std::invalid_argument(std::string("LAZYPRUNE_ISA: no instruction set is called ") + name);
}

/// The options from which a test makes its backend, unless it chooses the instruction set itself. If `e` sets no number of threads, the
/// test uses one thread. Results do not depend on this number, and ctest runs several tests at once.
inline lazyprune::execution tested_execution(lazyprune::execution e = {}) {
  if (e.threads == 0) e.threads = 1;
  e.instructions = named_path();
  return e;
}

}  // namespace lazyprune_test
