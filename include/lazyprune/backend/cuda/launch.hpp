// SPDX-License-Identifier: MIT
// Launches kernels by a function call, without nvcc's <<< >>> syntax.
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

inline constexpr std::size_t shared_without_asking = 48 * 1024;  // bytes that a block of any kernel may have without asking
inline constexpr std::size_t little_shared = 4 * 1024;           // bytes of a block; any carveout has room for enough blocks of this size

/// Lets each block of the kernel have this many bytes of shared memory. Also asks for the largest carveout (the part of the L1 cache that
/// is shared memory), so that as many blocks as possible fit on a multiprocessor. The driver's own choice may have room for only one block.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "shared memory",
        "room for " + std::to_string(bytes) + " bytes a block");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared), "shared memory");
}

/// Launches the kernel in a stream. If the grid has no blocks, launches nothing. Throws `error` if the launch fails.
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
