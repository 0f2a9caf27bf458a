// SPDX-License-Identifier: MIT
// Launches of kernels as plain calls.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include <lazyprune/backend/cuda/check.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

inline constexpr std::size_t shared_without_asking = 48 * 1024;  // bytes that every kernel may have of shared memory

/// Gives the kernel to a stream; a grid without blocks is none. More shared memory than every kernel may have is asked for. Throws `error`
/// where the device does not take it.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > shared_without_asking)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), "shared memory",
          "room for " + std::to_string(shared_bytes) + " bytes a block");
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
