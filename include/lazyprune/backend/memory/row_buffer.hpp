// SPDX-License-Identifier: MIT
// A buffer of activations that grows.
#pragma once

#include <algorithm>
#include <cstddef>

#include <lazyprune/backend/memory/aligned_array.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {

/// Activations (rows, columns), one row right after the other. `Memory` is a class with the members of aligned_array. Rows that were never
/// written hold arbitrary numbers.
template <class T, class Memory = aligned_array<T>>
class row_buffer {
 public:
  explicit row_buffer(std::size_t columns) : columns_(columns) {}

  /// Makes room for at least `rows` rows and keeps the existing ones. Memory grows by at least half, so adding rows one by one is cheap.
  void reserve(std::size_t rows) {
    const std::size_t needed = rows * columns_;
    if (needed > memory_.size()) memory_ = memory_.resized(std::max(needed, memory_.size() + memory_.size() / 2), rows_ * columns_);
    rows_ = std::max(rows_, rows);
  }

  rows_view<T> view() { return {memory_.data(), rows_, columns_, columns_}; }
  rows_view<const T> view() const { return {memory_.data(), rows_, columns_, columns_}; }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  std::size_t columns_;
  std::size_t rows_ = 0;
  Memory memory_;
};

}  // namespace v0
}  // namespace lazyprune
