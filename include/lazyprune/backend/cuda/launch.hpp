// SPDX-License-Identifier: MIT
// Launches of kernels as plain calls.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <lazyprune/backend/cuda/check.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

inline constexpr std::size_t shared_without_asking = 48 * 1024;  // bytes that every kernel may have of shared memory
inline constexpr std::size_t little_shared = 4 * 1024;           // bytes with which any split has room for enough blocks

/// Lets the kernel have so much shared memory a block. The multiprocessors then split their memory so that as many blocks as possible have
/// room; the driver's own split may leave room for one.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "shared memory",
        "room for " + std::to_string(bytes) + " bytes a block");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared), "shared memory");
}

/// Gives the kernel to a stream; a grid without blocks is none. Throws `error` where the device does not take it.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > little_shared) {
    static thread_local std::unordered_map<const void*, std::size_t> allowed;  // asking again costs a microsecond a launch
    std::size_t& most = allowed[reinterpret_cast<const void*>(kernel)];
    if (shared_bytes > most) allow_shared_memory(kernel, shared_bytes);
    most = std::max(most, shared_bytes);
  }
  std::tuple<Parameters...> given(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... values) {
        std::array<void*, sizeof...(Parameters)> pointers{&values...};
        check(cudaLaunchKernel(kernel, grid, block, pointers.data(), shared_bytes, stream), "launch");
      },
      given);
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
