// SPDX-License-Identifier: MIT
// The contract of every backend, thread by thread on the imitated device.
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

// Attention's cases are many and large: all checks are on in the walk below, which meets all that they differ in, and here in full alone.
#define PART(name, holds)                                                      \
  TEST_CASE("cuda: " name) {                                                   \
    std::optional<unchecked> fast;                                             \
    if (std::string_view(#holds) == "attention" && !in_full()) fast.emplace(); \
    contract::holds<hosted_cuda>();                                            \
  }

LAZYPRUNE_CONTRACT(PART)

// A walk through the product of all axes, in cases of so many multiplications of scores at most, or of as many as
// $LAZYPRUNE_TEST_ATTENTION_WORK says: 4000000000 leaves nothing out.
TEST_CASE("cuda: attention of every shape, as the reference") {
  const char* given = std::getenv("LAZYPRUNE_TEST_ATTENTION_WORK");
  const attention_walk walk(given ? std::stoull(given) : in_full() ? 30000000 : 1500000);
  std::uint32_t seed = 1000;
  for (const attention_grid_case& c : walk.cases) off_by(c, ++seed);
  CHECK(walk.every_value);
  MESSAGE(walk.cases.size() << " cases, " << walk.pairs << " of " << walk.all_pairs << " pairs of values");
}
