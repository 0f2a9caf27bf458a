// SPDX-License-Identifier: MIT
// Device memory.
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
#include <lazyprune/backend/cuda/work_order.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// The purpose of memory. Error messages name it.
enum class purpose : std::uint8_t { weights, activations, keys_and_values, aux_cache, scratch };

constexpr std::string_view name_of(purpose p) {
  constexpr std::string_view names[] = {"weights", "activations", "keys and values", "stored rows", "scratch"};
  return names[static_cast<std::size_t>(p)];
}

/// Uninitialised device memory for `size` numbers, from the allocator of the thread's place (work_order::queue). The allocation and the
/// release of the memory are in order with all other work, so work that was queued before this object's destruction may still use it. If
/// there is too little memory, throws an `error` (no_memory) that names the purpose and the bytes.
template <class T, purpose Purpose>
class array {
 public:
  array() = default;
  explicit array(std::size_t size) : size_(size) {
    if (size == 0) return;
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length{};
    const std::string wanted = std::to_string(bytes()) + " bytes of the device's memory";
    work_order::of_process().queue([&](const place& from) {
      if (!from.memory.allocate) return check(cudaMallocAsync(&data_, bytes(), from.stream), name_of(Purpose), wanted);
      allocator_ = from.memory;
      data_ = static_cast<T*>(allocator_.allocate(allocator_.user, bytes(), from.stream));
      if (!data_) throw error("cuda", name_of(Purpose), wanted, "none from the allocator", error_code::no_memory);
    });
  }
  array(array&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), allocator_(other.allocator_) {}
  array& operator=(array other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(allocator_, other.allocator_);
    return *this;
  }
  ~array() {
    if (!data_) return;
    work_order::of_process().queue([&](const place& from) {
      if (allocator_.release)
        allocator_.release(allocator_.user, data_, bytes(), from.stream);
      else
        cudaFreeAsync(data_, from.stream);
    });
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
  cuda_allocator allocator_{};
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
