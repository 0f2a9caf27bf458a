// SPDX-License-Identifier: MIT
// Implements the parts of the CUDA runtime and of CUDA C++ that this project uses, on the emulated device. The names and their meanings are
// CUDA's.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// CUDA C++.

using dim3 = emulated::index3;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

#define threadIdx (::emulated::grid::running->index)
#define blockIdx (::emulated::the_device().threads.block_index())
#define blockDim (::emulated::the_device().threads.block_threads())
#define gridDim (::emulated::the_device().threads.blocks())

namespace emulated {

inline grid& running_grid() {
  if (!grid::running) throw fault("an operation of the device's threads is called on the host");
  return the_device().threads;
}

/// Throws `fault` unless all lanes take part in an operation of the warp.
inline void check_mask(unsigned mask) {
  if (mask != 0xffffffffu) throw fault("an operation of a part of a warp: only whole warps are emulated");
}

template <class T>
struct shuffled {
  T value;
  unsigned from;
};

template <class T>
T shuffle(unsigned mask, T value, unsigned from, site where) {
  check_mask(mask);
  const meeting<shuffled<T>, T> exchange = [](const auto& brought, auto& got) {
    for (unsigned lane = 0; lane < lanes; ++lane) got[lane] = brought[brought[lane].from % lanes].value;
  };
  return running_grid().meet(exchange, shuffled<T>{value, from}, where);
}

}  // namespace emulated

// The last parameters of the following functions are the place of the call in the source.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated::running_grid().barrier({file, line});
}

inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated::check_mask(mask);
  const emulated::meeting<unsigned, unsigned> order = [](const auto&, auto&) { emulated::the_device().threads.warp_is_ordered(); };
  emulated::running_grid().meet(order, 0u, {file, line});
}

template <class T>
T __shfl_sync(unsigned mask, T value, unsigned lane, int = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return emulated::shuffle(mask, value, lane, {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned by, int = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return emulated::shuffle(mask, value, (threadIdx.x % emulated::lanes) ^ by, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const unsigned lane = threadIdx.x % emulated::lanes;
  return emulated::shuffle(mask, value, lane + by < emulated::lanes ? lane + by : lane, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, bool yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulated::check_mask(mask);
  const emulated::meeting<bool, unsigned> count = [](const auto& brought, auto& got) {
    unsigned votes = 0;
    for (unsigned lane = 0; lane < emulated::lanes; ++lane) votes |= static_cast<unsigned>(brought[lane]) << lane;
    got.fill(votes);
  };
  return emulated::running_grid().meet(count, yes, {file, line});
}
inline bool __any_sync(unsigned mask, bool yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ballot_sync(mask, yes, file, line) != 0;
}
inline bool __all_sync(unsigned mask, bool yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ballot_sync(mask, yes, file, line) == 0xffffffffu;
}
inline void __threadfence() { emulated::running_grid().fence(); }

using std::max;
using std::min;
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }

// The runtime.

using cudaStream_t = emulated::stream*;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidResourceHandle = 400 };
inline const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaSuccess ? "cudaSuccess" : e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
}
inline const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess ? "no error" : e == cudaErrorMemoryAllocation ? "out of memory" : "invalid argument";
}

namespace emulated {

/// The error that the runtime keeps until cudaGetLastError returns it.
inline cudaError_t& last_error() {
  static thread_local cudaError_t one = cudaSuccess;
  return one;
}
inline cudaError_t answer(cudaError_t e) {
  if (e != cudaSuccess) last_error() = e;
  return e;
}

}  // namespace emulated

inline cudaError_t cudaGetLastError() { return std::exchange(emulated::last_error(), cudaSuccess); }

enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
inline constexpr unsigned cudaStreamNonBlocking = 1;

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = emulated::the_device().make_stream();
  return cudaSuccess;
}
using cudaEvent_t = emulated::event*;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* to, unsigned) {
  *to = new emulated::event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
  emulated::the_device().record(e, stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned) {
  emulated::the_device().wait(e, stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulated::the_device().end_stream(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulated::the_device().synchronize(stream);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  emulated::the_device().synchronize_all();
  return cudaSuccess;
}

template <class T>
cudaError_t cudaMallocAsync(T** to, std::size_t bytes, cudaStream_t) {
  const std::lock_guard lock(emulated::the_device().one_at_a_time);
  ++emulated::the_device().allocations;
  if (bytes == 0) return cudaErrorInvalidValue;
  *to = reinterpret_cast<T*>(emulated::the_device().store.allocate(bytes));
  return emulated::answer(*to ? cudaSuccess : cudaErrorMemoryAllocation);
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  emulated::the_device().give(stream, [p] { emulated::the_device().store.free(reinterpret_cast<std::uintptr_t>(p)); });
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** to, std::size_t bytes) {
  return cudaMallocAsync(to, bytes, nullptr);
}
inline cudaError_t cudaFree(void* p) {
  cudaDeviceSynchronize();
  if (p) emulated::the_device().store.free(reinterpret_cast<std::uintptr_t>(p));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMallocHost(T** to, std::size_t bytes) {
  ++emulated::the_device().allocations;
  *to = static_cast<T*>(std::malloc(bytes));
  return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFreeHost(void* p) {
  std::free(p);
  return cudaSuccess;
}

/// A block may have 48 KiB of shared memory, or what the host has asked for last for this kernel, up to the device's limit.
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;  // percent
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute which, int bytes) {
  if (which == cudaFuncAttributePreferredSharedMemoryCarveout) return bytes <= 100 ? cudaSuccess : cudaErrorInvalidValue;
  if (bytes < 0 || static_cast<std::size_t>(bytes) > emulated::grid::most_shared) return emulated::answer(cudaErrorInvalidValue);
  const std::lock_guard lock(emulated::the_device().one_at_a_time);
  emulated::the_device().shared_asked_for[reinterpret_cast<void (*)()>(kernel)] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  emulated::device& device = emulated::the_device();
  const std::lock_guard lock(device.one_at_a_time);
  if ((stream ? stream : device.default_stream())->device != device.current()) return cudaErrorInvalidResourceHandle;
  const auto asked_for = device.shared_asked_for.find(reinterpret_cast<void (*)()>(kernel));
  if (shared_bytes > (asked_for == device.shared_asked_for.end() ? 48 * 1024 : asked_for->second)) return cudaErrorInvalidValue;
  ++device.launched[reinterpret_cast<void (*)()>(kernel)];
  const auto given = [arguments]<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::tuple<Parameters...>(*static_cast<Parameters*>(arguments[Index])...);
  }
  (std::index_sequence_for<Parameters...>());
  device.give(stream, [=, &device] { device.threads.run(grid, block, shared_bytes, [&] { std::apply(kernel, given); }); });
  return cudaSuccess;
}
struct cudaFuncAttributes {
  int ptxVersion, maxThreadsPerBlock;
};
/// All kernels are as if compiled for compute capability 8.0, but with wgmma. Their launch bounds are not known: they seem to be those of a
/// kernel with wgmma, or none.
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel*) {
  attributes->ptxVersion = 80;
  attributes->maxThreadsPerBlock = emulated::the_device().wgmma ? 64 : 1024;
  return cudaSuccess;
}
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
union cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {  // the names of its first members are macros here
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
/// Begins no kernel early, as devices of compute capability 8.0.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (config->numAttrs > 0) return cudaErrorInvalidValue;
  std::tuple<Parameters...> given(std::forward<Arguments>(arguments)...);
  return std::apply(
      [&](auto&... values) {
        std::array<void*, sizeof...(Parameters)> pointers{&values...};
        return cudaLaunchKernel(kernel, config->grid, config->block, pointers.data(), config->shared_bytes, config->stream);
      },
      given);
}

// The memory pool of a device keeps no freed memory.
using cudaMemPool_t = int;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold };
inline cudaError_t cudaGetDevice(int* number) {
  *number = emulated::device::current();
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= emulated::the_device().devices) return cudaErrorInvalidValue;
  emulated::device::current() = number;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulated::the_device().devices;
  return cudaSuccess;
}

/// The attributes have the values of an A100 with 80 GB.
enum cudaDeviceAttr {
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrClockRate:
      *value = 1410000;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = emulated::the_device().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 1593000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 5120;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 8;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated device", emulated::the_device().store.capacity};
  return cudaSuccess;
}

inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = device;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

/// The copy reads or writes host memory when the stream does its work, not when the host calls this function.
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  emulated::the_device().give(stream, [=] {
    emulated::memory& m = emulated::the_device().store;
    if (bytes == 0) return;
    if (kind == cudaMemcpyDeviceToDevice) return m.copy(to, from, bytes);
    if (m.is_device(kind == cudaMemcpyHostToDevice ? from : to))
      throw emulated::fault("a copy: a pointer of the device where the host's is expected");
    auto& made = kind == cudaMemcpyHostToDevice ? emulated::the_device().to_device : emulated::the_device().to_host;
    ++made.copies;
    made.bytes += bytes;
    if (kind == cudaMemcpyHostToDevice)
      std::memcpy(m.to_write(to, bytes, "a copy to the device"), from, bytes);
    else
      std::memcpy(to, m.to_read(from, bytes, "a copy to the host"), bytes);
  });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                                     std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  for (std::size_t r = 0; r < height; ++r)
    cudaMemcpyAsync(static_cast<std::byte*>(to) + r * to_pitch, static_cast<const std::byte*>(from) + r * from_pitch, width, kind, stream);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  emulated::the_device().give(stream, [=] {
    if (bytes > 0) std::memset(emulated::the_device().store.to_write(to, bytes, "a fill of the device"), value, bytes);
  });
  return cudaSuccess;
}
