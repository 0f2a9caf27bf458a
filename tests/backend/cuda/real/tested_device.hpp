// SPDX-License-Identifier: MIT
// What tests ask of the device beside its work, here of a GPU; tests/backend/cuda/emulated has the same words for the imitated device,
// which knows more of itself.
#pragma once

#include <lazyprune/backend/cuda/memory.hpp>

#include <cstddef>
#include <cstdint>

namespace lazyprune_test {

inline cudaMemPool_t pool_of_device() {
  int number = 0;
  cudaMemPool_t pool = nullptr;
  lazyprune::device::check(cudaGetDevice(&number), "device");
  lazyprune::device::check(cudaDeviceGetDefaultMemPool(&pool, number), "memory pool");
  return pool;
}

/// Bytes that are held; what was given back counts until it is waited for.
inline std::size_t bytes_held() {
  std::uint64_t used = 0;
  lazyprune::device::check(cudaMemPoolGetAttribute(pool_of_device(), cudaMemPoolAttrUsedMemCurrent, &used), "memory pool");
  return used;
}

inline bool lies_on_device(const void* p) {
  cudaPointerAttributes of{};
  lazyprune::device::check(cudaPointerGetAttributes(&of, p), "pointer");
  return of.type == cudaMemoryTypeDevice;
}

/// A GPU takes the order that it takes.
inline void shuffle_threads(std::uint64_t) {}

/// Tells whether memory is held that was not when it began: less than the imitated device tells, which counts allocations.
class allocation_watch {
 public:
  bool saw_any() const { return bytes_held() != before_; }

 private:
  std::size_t before_ = bytes_held();
};

/// Nothing here checks every access, but compute-sanitizer where it runs the tests.
class unchecked {
 public:
  unchecked() = default;
  unchecked(const unchecked&) = delete;
  unchecked& operator=(const unchecked&) = delete;
  ~unchecked() {}
};

}  // namespace lazyprune_test
