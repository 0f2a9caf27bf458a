// SPDX-License-Identifier: MIT
// The one main of every test executable.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include <lazyprune/backend/cpu/isa.hpp>

#include "tested_path.hpp"

/// 77: skipped, since this processor cannot compute with what LAZYPRUNE_ISA names.
int main(int argc, char** argv) {
  const auto path = lazyprune_test::named_path();
  if (path && !lazyprune::has(*path)) {
    std::cout << "skipped: this processor lacks " << name_of(*path) << '\n';
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
