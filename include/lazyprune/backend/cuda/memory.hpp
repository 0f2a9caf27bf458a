// SPDX-License-Identifier: MIT
// Device memory, and the one stream that orders all work on the device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <lazyprune/backend/cuda/check.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

inline int current_device() {
  int number = 0;
  check(cudaGetDevice(&number), "device");
  return number;
}

struct stream_of_device {
  cudaStream_t stream;
  int device;
};

/// The device of this process, and the stream of all its backend objects (contexts). The device is the current device of the thread that
/// calls this function first. Sequences of different contexts may share memory. Because there is only one stream, all their work is in
/// order without events. Freed memory stays in the driver's pool, so that it can be allocated again without a system call.
inline const stream_of_device& the_stream() {
  static const stream_of_device one = [] {
    stream_of_device made{nullptr, current_device()};
    check(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking), "stream");
    cudaMemPool_t pool;
    check(cudaDeviceGetDefaultMemPool(&pool, made.device), "memory pool");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
    return made;
  }();
  return one;
}

inline cudaStream_t stream() { return the_stream().stream; }

/// Throws `error` (unsupported) if this thread's current device is not the device of this process (see the_stream).
inline void check_device() {
  const int expected = the_stream().device, found = current_device();
  if (found != expected)
    throw error("cuda", "device", "device " + std::to_string(expected) + ", on which this process computes (cudaSetDevice)",
                std::to_string(found), error_code::unsupported);
}

/// Waits until all queued work is done.
inline void synchronize() { check(cudaStreamSynchronize(stream()), "the device's work"); }

/// The purpose of memory. Error messages name it.
enum class purpose : std::uint8_t { weights, activations, keys_and_values, aux_cache, scratch };

constexpr std::string_view name_of(purpose p) {
  constexpr std::string_view names[] = {"weights", "activations", "keys and values", "stored rows", "scratch"};
  return names[static_cast<std::size_t>(p)];
}

/// Uninitialised device memory for `size` numbers. The stream orders the allocation and the release of the memory, so work that was queued
/// before this object's destruction may still use it. If there is too little memory, throws an `error` (no_memory) that names the purpose
/// and the bytes.
template <class T, purpose Purpose>
class array {
 public:
  array() = default;
  explicit array(std::size_t size) : size_(size) {
    if (size == 0) return;
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length{};
    check(cudaMallocAsync(&data_, bytes(), stream()), name_of(Purpose), std::to_string(bytes()) + " bytes of the device's memory");
  }
  array(array&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  array& operator=(array other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~array() {
    if (data_) cudaFreeAsync(data_, stream());
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Returns new memory for `size` numbers, with a copy of the first `kept` numbers of this array.
  array resized(std::size_t size, std::size_t kept) const {
    array other(size);
    if (kept > 0) check(cudaMemcpyAsync(other.data_, data_, kept * sizeof(T), cudaMemcpyDeviceToDevice, stream()), name_of(Purpose));
    return other;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Scratch memory for numbers. It grows to the largest size that was reserved. When it grows, its contents are lost.
template <class T>
class scratch {
 public:
  T* reserve(std::size_t size) {
    if (size > memory_.size()) {
      memory_ = {};
      memory_ = array<T, purpose::scratch>(size);
    }
    return memory_.data();
  }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  array<T, purpose::scratch> memory_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
