// SPDX-License-Identifier: MIT
// The operand of the products on the device: rows of activations in the type of the weights that they are multiplied by.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/weights.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Rows of activations (rows, columns), bf16 for products with weights in bf16, else float. A row begins at a multiple of 16 bytes and has
/// the pitch of the weights. Zeros follow its last number, because tensor cores read a multiple of eight numbers.
class operand {
 public:
  explicit operand(std::size_t columns) : columns_(columns) {}

  /// Makes room for `rows` rows of this type. Earlier numbers may be lost.
  void prepare(std::size_t rows, dtype type) {
    const std::size_t needed = rows * pitch() * size_of(type);
    const bool grows = needed > memory_.size();
    if (grows) {
      const std::size_t more = memory_.size() + memory_.size() / 2;
      memory_ = {};
      memory_ = memory(std::max(needed, more));
    }
    // No kernel writes the padding, so it is set to 0 only here: if the memory is new, and if the type changes, because the padding then
    // lies elsewhere.
    if (pitch() > columns_ && (grows || type != type_) && memory_.size() > 0)
      check(cudaMemsetAsync(memory_.data(), 0, memory_.size(), stream()), "operand");
    rows_ = rows;
    type_ = type;
  }

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::size_t pitch() const { return weight::pitch_of(columns_); }  // numbers from one row to the next
  dtype type() const { return type_; }                              // f32 or bf16
  std::size_t bytes() const { return memory_.bytes(); }
  const void* data() const { return memory_.data(); }

  /// Returns all rows, for a product to write. T must be the type of their numbers.
  template <class T>
  rows_view<T> view() {
    assert(size_of(type_) == sizeof(T));
    return {numbers<T>(), rows_, columns_, pitch()};
  }
  /// Returns the rows from `first` on, for a kernel to write.
  any_rows from(std::size_t first) {
    assert(first <= rows_);
    if (type_ == dtype::bf16) return {{}, {numbers<std::uint16_t>() + first * pitch(), pitch()}};
    return {{numbers<float>() + first * pitch(), pitch()}, {}};
  }
  /// Returns the rows from `first` on. T must be the type of their numbers.
  template <class T>
  row_span<T> rows_of(std::size_t first = 0) {
    assert(size_of(type_) == sizeof(T) && first <= rows_);
    return {numbers<T>() + first * pitch(), pitch()};
  }
  template <class T>
  row_span<const T> rows_of(std::size_t first = 0) const {
    assert(size_of(type_) == sizeof(T) && first <= rows_);
    return {reinterpret_cast<const T*>(memory_.data()) + first * pitch(), pitch()};
  }

 private:
  using memory = array<std::byte, purpose::activations>;

  template <class T>
  T* numbers() {
    return reinterpret_cast<T*>(memory_.data());
  }

  std::size_t columns_;
  std::size_t rows_ = 0;
  dtype type_ = dtype::f32;
  memory memory_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
