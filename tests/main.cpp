// SPDX-License-Identifier: MIT
// The main function of every test executable.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include <lazyprune/backend/cpu/isa.hpp>

#ifdef LAZYPRUNE_TESTS_NEED_GPU
#include <cuda_runtime_api.h>
#endif

#include "skip.hpp"
#include "tested_path.hpp"

/// Returns 77 if no test failed and at least one test was skipped. The last lines of the output then say why.
int main(int argc, char** argv) {
  const auto path = lazyprune_test::named_path();
  if (path && !lazyprune::has(*path)) {
    std::cout << "skipped: needs a processor with " << name_of(*path) << '\n';
    return 77;
  }
#ifdef LAZYPRUNE_TESTS_NEED_GPU
  if (int gpus = 0; cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::cout << "skipped: needs an NVIDIA GPU and its driver\n";
    return 77;
  }
#endif
  const int failed = doctest::Context(argc, argv).run();
  for (const std::string& what : lazyprune_test::lacked()) std::cout << "skipped: needs " << what << '\n';
  return failed ? failed : lazyprune_test::lacked().empty() ? 0 : 77;
}
