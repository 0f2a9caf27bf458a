// SPDX-License-Identifier: MIT
// Tests the contract of every backend with the two backends in host memory: reference and cpu.
#include <lazyprune/backend/tensor_backend.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <backend/contract.hpp>
#include <backend/tested_cpu.hpp>

using namespace lazyprune_test;

#define PART(name, holds)                                                                    \
  TEST_CASE("reference in float: " name) { contract::holds<lazyprune::reference<float>>(); } \
  TEST_CASE("cpu: " name ON_EVERY_PATH) { contract::holds<tested_cpu>(); }

LAZYPRUNE_CONTRACT(PART)

TEST_CASE_TEMPLATE("work in parallel is done once for each index, in a team and outside of one", Backend, lazyprune::reference<float>,
                   tested_cpu) {
  Backend backend;
  for (const bool in_team : {false, true})
    for (const std::size_t count : {0u, 1u, 2u, 37u}) {
      std::vector<int> calls(count);
      const auto work = [&] { lazyprune::in_parallel(backend, count, [&](std::size_t i) { ++calls[i]; }); };
      if (in_team)
        lazyprune::in_one_team(backend, work);
      else
        work();
      CHECK(calls == std::vector<int>(count, 1));
    }
}
