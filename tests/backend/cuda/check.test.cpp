// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/check.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cuda/memory.hpp>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("a failure of the runtime becomes an error that names the purpose and the bytes") {
  CHECK_NOTHROW(device::check(cudaSuccess, "launch"));
  CHECK(error_of([&] { device::check(cudaErrorInvalidValue, "launch"); }) == at("cuda: launch", {"cudaErrorInvalidValue"}, error_code::io));
  CHECK_NOTHROW(device::check(CUBLAS_STATUS_SUCCESS, "product"));
  CHECK(error_of([&] { device::check(CUBLAS_STATUS_NOT_SUPPORTED, "product"); }) ==
        at("cuda: product", {"CUBLAS_STATUS_NOT_SUPPORTED"}, error_code::io));
  CHECK(error_of([] { device::check(cudaErrorMemoryAllocation, "keys and values", "4096 bytes"); }) ==
        at("cuda: keys and values", {"4096 bytes", "cudaErrorMemoryAllocation"}, error_code::no_memory));
}

TEST_CASE("the runtime forgets an error that was thrown") {
  CHECK(error_of([] { device::array<float, device::purpose::scratch>(std::size_t{1} << 50); }).code == error_code::no_memory);
  CHECK(cudaGetLastError() == cudaSuccess);
}
