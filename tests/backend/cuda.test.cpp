// SPDX-License-Identifier: MIT
// The contract of every backend, thread by thread on the imitated device.
#include <lazyprune/backend/cuda.hpp>

#include <doctest/doctest.h>

#include <backend/contract.hpp>
#include <backend/cuda/hosted_cuda.hpp>

using namespace lazyprune_test;

#define PART(name, holds) \
  TEST_CASE("cuda: " name) { contract::holds<hosted_cuda>(); }

LAZYPRUNE_CONTRACT(PART)
