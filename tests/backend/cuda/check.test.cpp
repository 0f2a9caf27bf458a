// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/check.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("what the runtime answers becomes an error that says what asked for how much") {
  CHECK_NOTHROW(device::check(cudaSuccess, "launch"));
  CHECK_THROWS_WITH_AS(device::check(cudaErrorInvalidValue, "launch"),
                       "cuda: launch: expected success, found cudaErrorInvalidValue: invalid argument", error);
  CHECK_NOTHROW(device::check(CUBLAS_STATUS_SUCCESS, "product"));
  CHECK_THROWS_WITH_AS(device::check(CUBLAS_STATUS_NOT_SUPPORTED, "product"),
                       "cuda: product: expected success, found cuBLAS: CUBLAS_STATUS_NOT_SUPPORTED", error);
  try {
    device::check(cudaErrorMemoryAllocation, "keys and values", "4096 bytes");
    FAIL("no error");
  } catch (const error& e) {
    CHECK(e.code() == error_code::no_memory);
    CHECK(std::string(e.what()) == "cuda: keys and values: expected 4096 bytes, found cudaErrorMemoryAllocation: out of memory");
  }
}
