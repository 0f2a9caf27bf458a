// SPDX-License-Identifier: MIT
// Functions by which the tests inspect and control the emulated device. tests/backend/cuda/real has the same functions for a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lazyprune_test {

/// Returns how many bytes are allocated. Freed memory counts until the next synchronization.
inline std::size_t bytes_held() { return emulated::the_device().store.held(); }

/// Returns how often the host has waited for a stream.
inline std::optional<std::size_t> times_waited() { return emulated::the_device().waits; }

/// Returns how often the host has launched the kernel.
template <class... Parameters>
std::optional<std::size_t> times_launched(void (*kernel)(Parameters...)) {
  return emulated::the_device().launched[reinterpret_cast<void (*)()>(kernel)];
}

inline bool lies_on_device(const void* p) { return emulated::the_device().store.is_device(p); }

/// While an object of this class exists, the machine has several devices. Only the first one runs kernels.
class several_devices {
 public:
  several_devices() { emulated::the_device().devices = 3; }
  several_devices(const several_devices&) = delete;
  several_devices& operator=(const several_devices&) = delete;
  ~several_devices() {
    emulated::the_device().devices = 1;
    cudaSetDevice(0);
  }
  bool exist() const { return true; }
};

/// While an object of this class exists, kernels say that they were compiled without wgmma.
class without_wgmma {
 public:
  without_wgmma() { emulated::the_device().wgmma = false; }
  without_wgmma(const without_wgmma&) = delete;
  without_wgmma& operator=(const without_wgmma&) = delete;
  ~without_wgmma() { emulated::the_device().wgmma = true; }
};

/// While an object of this class exists, the device says that it has 2 multiprocessors. Then little work fills it.
class few_multiprocessors {
 public:
  few_multiprocessors() { emulated::the_device().multiprocessors = 2; }
  few_multiprocessors(const few_multiprocessors&) = delete;
  few_multiprocessors& operator=(const few_multiprocessors&) = delete;
  ~few_multiprocessors() { emulated::the_device().multiprocessors = before_; }

 private:
  int before_ = emulated::the_device().multiprocessors;
};

/// From now on, threads run in an order that follows from `seed`.
inline void shuffle_threads(std::uint64_t seed) { emulated::the_device().threads.seed = seed; }

/// Tells whether memory was allocated since this object was constructed.
class allocation_watch {
 public:
  bool saw_any() const { return emulated::the_device().allocations != before_; }

 private:
  std::size_t before_ = emulated::the_device().allocations;
};

/// While an object of this class exists, accesses do not use the shadow memory: only their addresses are checked.
class unchecked {
 public:
  unchecked() { emulated::the_device().store.checks = false; }
  unchecked(const unchecked&) = delete;
  unchecked& operator=(const unchecked&) = delete;
  ~unchecked() { emulated::the_device().store.checks = true; }
};

}  // namespace lazyprune_test
