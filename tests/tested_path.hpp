// SPDX-License-Identifier: MIT
// Which of the backend's instruction sets a test computes with: the one that the environment's LAZYPRUNE_ISA names, as in the program. A
// ctest entry whose name ends in @PATH sets it.
#pragma once

#include <lazyprune/backend/execution.hpp>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace lazyprune_test {

/// None where the variable is empty or absent.
inline std::optional<lazyprune::isa> named_path() {
  const char* name = std::getenv("LAZYPRUNE_ISA");
  if (!name || !*name) return std::nullopt;
  for (const lazyprune::isa i : lazyprune::every_isa)
    if (name == name_of(i)) return i;
  throw std::invalid_argument(std::string("LAZYPRUNE_ISA: no instruction set is called ") + name);
}

/// What a test makes its backend from, unless it names the instructions itself.
inline lazyprune::execution tested_execution(lazyprune::execution e = {}) {
  e.instructions = named_path();
  return e;
}

}  // namespace lazyprune_test
