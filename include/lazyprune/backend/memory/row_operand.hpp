// SPDX-License-Identifier: MIT
// The operand of a backend whose products read rows as they are.
#pragma once

#include <cstddef>

#include <lazyprune/backend/memory/row_buffer.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows (rows, columns) in a buffer. Memory grows to the most rows seen and is then reused.
template <class T>
class row_operand {
 public:
  explicit row_operand(std::size_t columns) : columns_(columns), buffer_(columns) {}

  /// Makes room for `rows` rows. Earlier numbers may be lost.
  void prepare(std::size_t rows) {
    buffer_.reserve(rows);
    rows_ = rows;
  }

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  rows_view<T> view() { return buffer_.view().slice(0, rows_); }
  rows_view<const T> view() const { return buffer_.view().slice(0, rows_); }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  std::size_t columns_;
  std::size_t rows_ = 0;
  row_buffer<T> buffer_;
};

}  // namespace v0
}  // namespace lazyprune
