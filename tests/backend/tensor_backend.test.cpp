// SPDX-License-Identifier: MIT
// Tests the contract of every backend with the two backends in host memory: reference and cpu.
#include <lazyprune/backend/tensor_backend.hpp>

#include <doctest/doctest.h>

#include <backend/contract.hpp>
#include <backend/tested_cpu.hpp>

using namespace lazyprune_test;

#define PART(name, holds)                                                                    \
  TEST_CASE("reference in float: " name) { contract::holds<lazyprune::reference<float>>(); } \
  TEST_CASE("cpu: " name ON_EVERY_PATH) { contract::holds<tested_cpu>(); }

LAZYPRUNE_CONTRACT(PART)
