// SPDX-License-Identifier: MIT
// Copy-on-write memory, on the host or on a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include <lazyprune/backend/memory/aligned_array.hpp>

namespace lazyprune {
inline namespace v0 {

/// Memory for `size` numbers. Copies share it until one of them writes. The copies may belong to different threads. `Memory` is a class
/// with the members of aligned_array.
template <class T, class Memory = aligned_array<T>>
class shared_array {
 public:
  shared_array() = default;
  explicit shared_array(std::size_t size) : shared_array(Memory(size)) {}
  shared_array(const shared_array& other) noexcept : at_(other.at_) {
    if (at_) at_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  shared_array(shared_array&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  shared_array& operator=(shared_array other) noexcept {
    std::swap(at_, other.at_);
    return *this;
  }
  ~shared_array() {
    if (at_ && at_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete at_;
  }

  const T* data() const { return at_->numbers.data(); }
  std::size_t bytes() const { return at_ ? at_->numbers.bytes() : 0; }
  bool shared() const { return at_ && at_->owners.load(std::memory_order_acquire) > 1; }

  /// Returns the numbers for writing. If other objects share them, this object gets a copy of its own first.
  T* own() {
    if (shared()) {
      shared_array copy(at_->numbers.resized(at_->numbers.size(), at_->numbers.size()));
      std::swap(at_, copy.at_);
    }
    return at_->numbers.data();
  }

 private:
  struct memory {
    Memory numbers;
    std::atomic<std::size_t> owners{1};
  };
  explicit shared_array(Memory numbers) : at_(new memory{std::move(numbers)}) {}

  memory* at_ = nullptr;
};

}  // namespace v0
}  // namespace lazyprune
