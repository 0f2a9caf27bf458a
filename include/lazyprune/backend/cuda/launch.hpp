// SPDX-License-Identifier: MIT
// Launches kernels by a function call, without nvcc's <<< >>> syntax.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <lazyprune/backend/cuda/check.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/wgmma.hpp>

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

namespace detail {

template <class... Parameters, class... Arguments>
void launch(const cudaLaunchConfig_t& config, void (*kernel)(Parameters...), dim3 grid, std::size_t shared_bytes,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > little_shared) {
    // Asking again costs a microsecond a launch. All threads have one limit for a kernel: a lower one would be set for all of them.
    static std::mutex mutex;
    static std::unordered_map<const void*, std::size_t> allowed;
    const std::lock_guard lock(mutex);
    std::size_t& most = allowed[reinterpret_cast<const void*>(kernel)];
    if (shared_bytes > most) allow_shared_memory(kernel, shared_bytes);
    most = std::max(most, shared_bytes);
  }
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...), "launch");
}

}  // namespace detail

/// Launches the kernel in a stream. If the grid has no blocks, launches nothing. Throws `error` if the launch fails.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
  detail::launch(config, kernel, grid, shared_bytes, std::forward<Arguments>(arguments)...);
}

inline constexpr int threads_with_wgmma = 64;
/// A kernel without work. The device's version of it tells for which compute capability all kernels were compiled: by its number, and by
/// its launch bound whether with wgmma.
template <class = void>
__global__ void __launch_bounds__(has_wgmma ? threads_with_wgmma : 2 * threads_with_wgmma) kernel_without_work() {}

inline cudaFuncAttributes compiled_kernels() {
  cudaFuncAttributes compiled{};
  check(cudaFuncGetAttributes(&compiled, kernel_without_work<>), "kernels");
  return compiled;
}

/// Returns whether a kernel may begin before the stream's earlier kernels have ended: wait_for_earlier_work waits only if it was compiled
/// for compute capability 9.0 or later, and such kernels run on no older device.
inline bool kernels_may_begin_early() {
  static const bool may = compiled_kernels().ptxVersion >= 90;
  return may;
}

/// Returns whether kernels with wgmma were compiled to use it. They have no code otherwise.
inline bool kernels_have_wgmma() { return compiled_kernels().maxThreadsPerBlock == threads_with_wgmma; }

/// Launches the kernel in the stream of this process as `launch` does, but its blocks may begin before the stream's earlier kernels have
/// ended, where kernels_may_begin_early. So the device is not idle between two kernels. The kernel must call wait_for_earlier_work. (CUDA
/// C++ Programming Guide: programmatic dependent launch.)
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream(), &early, kernels_may_begin_early() ? 1u : 0u};
  detail::launch(config, kernel, grid, shared_bytes, std::forward<Arguments>(arguments)...);
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
