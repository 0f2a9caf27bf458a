// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/launch.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <lazyprune/backend/cuda/device.hpp>

#include <fault.hpp>
#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Adds `more` to each number. Each number passes through the last bytes of shared memory.
__global__ void add(device::global<int> x, std::size_t shared_bytes, int more) {
  const auto last = device::shared_memory<int>(shared_bytes - blockDim.x * sizeof(int));
  last[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  x[blockIdx.x * blockDim.x + threadIdx.x] = last[threadIdx.x] + more;
}

__global__ void does_not_ask() {}

}  // namespace

TEST_CASE("a kernel gets its arguments and its shared memory") {
  std::vector<int> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0);
  on_device<int> x(numbers);
  for (const std::size_t shared_bytes : {std::size_t{128}, device::shared_without_asking, std::size_t{99 * 1024}})
    device::launch(add, {2}, {32}, shared_bytes, device::stream(), x.data(), shared_bytes, 10);
  device::launch(add, {2, 0}, {32}, 128, device::stream(), x.data(), std::size_t{128}, 1000);  // no blocks
  for (int& number : numbers) number += 30;
  CHECK(x.numbers() == numbers);
}

TEST_CASE("a kernel keeps its shared memory when another thread launches it with less") {
  on_device<int> x(std::vector<int>(64));
  const auto launch_with = [&](std::size_t shared_bytes) {
    device::launch(add, {2}, {32}, shared_bytes, device::stream(), x.data(), shared_bytes, 1);
    device::synchronize();
  };
  launch_with(56 * 1024);
  std::thread([&] { launch_with(16 * 1024); }).join();
  launch_with(56 * 1024);
  CHECK(x.numbers() == std::vector<int>(64, 3));
}

TEST_CASE("more shared memory than the device has is refused") {
  CHECK(error_of([&] { device::launch(does_not_ask, {1}, {32}, std::size_t{1} << 20, device::stream()); }) ==
        at("cuda: shared memory", {"1048576", "cudaErrorInvalidValue"}, error_code::io));
}

TEST_CASE("planted: more than 48 KiB of shared memory without permission") {
  CHECK(cudaLaunchKernel(does_not_ask, {1}, {32}, nullptr, device::shared_without_asking, device::stream()) == cudaSuccess);
  CHECK(cudaLaunchKernel(does_not_ask, {1}, {32}, nullptr, device::shared_without_asking + 1, device::stream()) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(does_not_ask, cudaFuncAttributeMaxDynamicSharedMemorySize, 99 * 1024) == cudaSuccess);
  CHECK(cudaLaunchKernel(does_not_ask, {1}, {32}, nullptr, 99 * 1024, device::stream()) == cudaSuccess);
  CHECK(cudaLaunchKernel(does_not_ask, {1}, {32}, nullptr, 99 * 1024 + 1, device::stream()) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(does_not_ask, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024) == cudaSuccess);
  CHECK(cudaLaunchKernel(does_not_ask, {1}, {32}, nullptr, 1025, device::stream()) == cudaErrorInvalidValue);
  device::synchronize();
}
