// SPDX-License-Identifier: MIT
// The contract of every backend, thread by thread on the imitated device.
#include <lazyprune/backend/cuda.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include <backend/contract.hpp>
#include <backend/cuda/attention_grid.hpp>
#include <backend/cuda/hosted_cuda.hpp>

using namespace lazyprune_test;

#define PART(name, holds) \
  TEST_CASE("cuda: " name) { contract::holds<hosted_cuda>(); }

LAZYPRUNE_CONTRACT(PART)

// A walk through the product of all axes: in cases of little work, or, where $LAZYPRUNE_TEST_ATTENTION_WORK says how many multiplications
// of scores a case may have, of more. 2000000000 leaves nothing out, and takes half an hour.
TEST_CASE("cuda: attention of every shape, as the reference") {
  const char* given = std::getenv("LAZYPRUNE_TEST_ATTENTION_WORK");
  const attention_walk walk(given ? std::stoull(given) : 3000000);
  std::uint32_t seed = 1000;
  for (const attention_grid_case& c : walk.cases) off_by(c, ++seed);
  CHECK(walk.every_value);
  MESSAGE(walk.cases.size() << " cases, " << walk.pairs << " of " << walk.all_pairs << " pairs of values");
}
