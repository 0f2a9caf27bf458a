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

// Attention has many large cases, so all checks are on for them only in a full run. The walk below has all checks on, and takes every value
// in which the cases differ.
#define PART(name, holds)                                                      \
  TEST_CASE("cuda: " name) {                                                   \
    std::optional<unchecked> fast;                                             \
    if (std::string_view(#holds) == "attention" && !in_full()) fast.emplace(); \
    contract::holds<hosted_cuda>();                                            \
  }

LAZYPRUNE_CONTRACT(PART)

// A walk through all combinations of values. It leaves out cases with more multiplications of scores than a limit.
// $LAZYPRUNE_TEST_ATTENTION_WORK sets another limit, and 4000000000 leaves nothing out.
TEST_CASE("cuda: attention of every shape agrees with the reference") {
  const char* given = std::getenv("LAZYPRUNE_TEST_ATTENTION_WORK");
  const attention_walk walk(given ? std::stoull(given) : in_full() ? 30000000 : 1500000);
  std::uint32_t seed = 1000;
  for (const attention_grid_case& c : walk.cases) off_by(c, ++seed);
  CHECK(walk.every_value);
  MESSAGE(walk.cases.size() << " cases, " << walk.pairs << " of " << walk.all_pairs << " pairs of values");
}
