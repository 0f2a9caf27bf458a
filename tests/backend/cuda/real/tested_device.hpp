// SPDX-License-Identifier: MIT
// Functions by which the tests inspect and control a GPU. tests/backend/cuda/emulated has the same functions for the emulated device.
// Functions that a GPU cannot support do nothing here.
#pragma once

#include <lazyprune/backend/cuda/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lazyprune_test {

inline cudaMemPool_t pool_of_device() {
  int number = 0;
  cudaMemPool_t pool = nullptr;
  lazyprune::device::check(cudaGetDevice(&number), "device");
  lazyprune::device::check(cudaDeviceGetDefaultMemPool(&pool, number), "memory pool");
  return pool;
}

/// Returns how many bytes are allocated. Freed memory counts until the next synchronization.
inline std::size_t bytes_held() {
  std::uint64_t used = 0;
  lazyprune::device::check(cudaMemPoolGetAttribute(pool_of_device(), cudaMemPoolAttrUsedMemCurrent, &used), "memory pool");
  return used;
}

/// Returns nothing: a GPU does not count how often the host waits.
inline std::optional<std::size_t> times_waited() { return std::nullopt; }

/// Returns nothing: a GPU does not count its kernels.
template <class... Parameters>
std::optional<std::size_t> times_launched(void (*)(Parameters...)) {
  return std::nullopt;
}

inline bool lies_on_device(const void* p) {
  cudaPointerAttributes of{};
  lazyprune::device::check(cudaPointerGetAttributes(&of, p), "pointer");
  return of.type == cudaMemoryTypeDevice;
}

/// Tells whether the machine has several devices. The class for the emulated device adds some.
class several_devices {
 public:
  several_devices() = default;
  several_devices(const several_devices&) = delete;
  several_devices& operator=(const several_devices&) = delete;
  ~several_devices() { cudaSetDevice(0); }
  bool exist() const {
    int count = 0;
    lazyprune::device::check(cudaGetDeviceCount(&count), "device");
    return count > 1;
  }
};

/// Does nothing: the kernels for a GPU have wgmma or not, as they were compiled.
class without_wgmma {
 public:
  without_wgmma() = default;
  without_wgmma(const without_wgmma&) = delete;
  without_wgmma& operator=(const without_wgmma&) = delete;
  ~without_wgmma() {}
};

/// Does nothing: a GPU has the multiprocessors that it has.
class few_multiprocessors {
 public:
  few_multiprocessors() = default;
  few_multiprocessors(const few_multiprocessors&) = delete;
  few_multiprocessors& operator=(const few_multiprocessors&) = delete;
  ~few_multiprocessors() {}
};

/// Does nothing: a GPU chooses its own order of threads.
inline void shuffle_threads(std::uint64_t) {}

/// Tells whether the number of allocated bytes has changed since this object was constructed. The class for the emulated device counts
/// allocations, so it also sees memory that was freed again.
class allocation_watch {
 public:
  bool saw_any() const { return bytes_held() != before_; }

 private:
  std::size_t before_ = bytes_held();
};

/// Does nothing: on a GPU, accesses are checked only if the tests run under compute-sanitizer.
class unchecked {
 public:
  unchecked() = default;
  unchecked(const unchecked&) = delete;
  unchecked& operator=(const unchecked&) = delete;
  ~unchecked() {}
};

}  // namespace lazyprune_test
