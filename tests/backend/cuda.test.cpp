// SPDX-License-Identifier: MIT
// The contract of every backend, thread by thread on the emulated device.
#include <lazyprune/backend/cuda.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <backend/contract.hpp>
#include <backend/cuda/attention_grid.hpp>
#include <backend/cuda/hosted_cuda.hpp>
#include <tested_device.hpp>

#include "../test_data.hpp"

using namespace lazyprune_test;

// The part `attention` has many large cases. Its memory accesses are checked only in a full run. The walk below checks its accesses in
// every run.
#define PART(name, holds)                                                      \
  TEST_CASE("cuda: " name) {                                                   \
    std::optional<unchecked> fast;                                             \
    if (std::string_view(#holds) == "attention" && !in_full()) fast.emplace(); \
    contract::holds<hosted_cuda>();                                            \
  }

LAZYPRUNE_CONTRACT(PART)

// Walks through random combinations of values until random draws find no new pair of values (attention_walk). It leaves out cases whose
// scores need more multiplications than a limit. $LAZYPRUNE_TEST_ATTENTION_WORK sets another limit. With 4000000000 no case is left out.
TEST_CASE("cuda: attention of every shape agrees with the reference") {
  const char* given = std::getenv("LAZYPRUNE_TEST_ATTENTION_WORK");
  const attention_walk walk(given ? std::stoull(given) : in_full() ? 30000000 : 1500000);
  std::uint32_t seed = 1000;
  for (const attention_grid_case& c : walk.cases) off_by(c, ++seed);
  CHECK(walk.every_value);
  MESSAGE(walk.cases.size() << " cases, " << walk.pairs << " of " << walk.all_pairs << " pairs of values");
}
