// SPDX-License-Identifier: MIT
// Host memory that is aligned to a cache line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>

namespace lazyprune {
inline namespace v0 {

/// Uninitialised memory for `size` numbers.
template <class T>
class aligned_array {
 public:
  static constexpr std::size_t alignment = 64;

  aligned_array() = default;
  explicit aligned_array(std::size_t size) : data_(size ? allocate(size) : nullptr), size_(size) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Returns a new array of `size` numbers, with a copy of the first `kept` numbers of this array.
  aligned_array resized(std::size_t size, std::size_t kept) const {
    aligned_array other(size);
    std::copy_n(data(), kept, other.data());
    return other;
  }

 private:
  struct release {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{alignment}); }
  };

  static T* allocate(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length{};
    return static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{alignment}));
  }

  std::unique_ptr<T[], release> data_;
  std::size_t size_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
