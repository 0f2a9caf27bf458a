// SPDX-License-Identifier: MIT
// What tests ask of the device beside its work, here of the imitated one; tests/backend/cuda/real has the same words for a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace lazyprune_test {

/// Bytes that are held; what was given back counts until it is waited for.
inline std::size_t bytes_held() { return emulated::the_device().store.held(); }

inline bool lies_on_device(const void* p) { return emulated::the_device().store.is_device(p); }

/// From now on threads take another order.
inline void shuffle_threads(std::uint64_t seed) { emulated::the_device().threads.seed = seed; }

/// Tells whether memory was allocated since it began.
class allocation_watch {
 public:
  bool saw_any() const { return emulated::the_device().allocations != before_; }

 private:
  std::size_t before_ = emulated::the_device().allocations;
};

/// While this lives nobody asks the shadow: addresses are followed, and that is all.
class unchecked {
 public:
  unchecked() { emulated::the_device().store.checks = false; }
  unchecked(const unchecked&) = delete;
  unchecked& operator=(const unchecked&) = delete;
  ~unchecked() { emulated::the_device().store.checks = true; }
};

}  // namespace lazyprune_test
