// SPDX-License-Identifier: MIT
// Rows of activations, in the order in which products read them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <vector>

#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows (rows, columns) for products with weights of one type, all quantized or none. They are cut into strips. All strips have the same
/// number of rows, but the last one may have fewer. A product_kernel has packed each strip: all rows of the strip for the first inputs,
/// then all rows for the next ones. Threads may write different strips, or different inputs of one strip, at the same time. Memory grows to
/// the most rows seen and is then reused.
class packed_rows {
 public:
  explicit packed_rows(std::size_t columns) : columns_(columns) {}

  /// Makes room for `rows` rows that this kernel packs, with the columns padded to `depth` inputs. The rows have no numbers yet.
  void prepare(const kernels::product_kernel& kernel, std::size_t rows, std::size_t depth) {
    assert(depth >= columns_);
    kernel_ = &kernel;
    rows_ = rows;
    depth_ = depth;
    strips_ = (rows + kernel.strip - 1) / kernel.strip;
    strip_ = strips_ == 0 ? 0 : kernel.padded((rows + strips_ - 1) / strips_);
    packed_ = reinterpret_cast<std::byte*>(memory_.take(strips_ * strip_bytes() / sizeof(float)));
    plain_ = nullptr;
  }

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::size_t depth() const { return depth_; }  // padded columns
  const kernels::product_kernel& kernel() const { return *kernel_; }
  std::size_t bytes() const { return memory_.bytes() + plain_memory_.bytes() + missing_.capacity() * sizeof(std::size_t); }

  std::size_t strips() const { return strips_; }
  std::size_t strip() const { return strip_; }  // rows of a strip, a multiple of the kernel's granule; the last strip may have fewer
  std::size_t rows_of(std::size_t s) const { return std::min(strip_, rows_ - s * strip_); }
  /// The bytes of a strip for each input, rounded up. The last strip may have fewer.
  std::size_t input_bytes() const { return (strip_ * kernel_->unit_bytes + kernels::pack_inputs - 1) / kernels::pack_inputs; }
  /// The distance of two strips in bytes. It is a cache line more than needed, because at distances of a power of two, the strips would
  /// compete for the same places in a cache.
  std::size_t strip_bytes() const {
    return detail::whole_lines(strip_ * kernel_->unit_bytes * depth_ / kernels::pack_inputs / sizeof(float)) * sizeof(float) +
           kernels::cache_line;
  }
  /// The packed rows of a strip, from input `first` on. `first` is a multiple of pack_inputs.
  const std::byte* strip_data(std::size_t s, std::size_t first = 0) const { return packed_ + offset(s, first); }

  /// Writes x (rows of the strip, count) to the inputs `first` to `first + count - 1` of a strip. `first` is a multiple of pack_inputs. So
  /// is `count`, if other columns follow.
  void pack(std::size_t s, std::size_t first, rows_view<const float> x) {
    assert(x.rows == rows_of(s) && first % kernels::pack_inputs == 0);
    const std::size_t end = first + x.columns, padded = end < columns_ ? x.columns : depth_ - first;
    kernel_->pack(x.data, x.stride, x.rows, x.columns, padded, packed_ + offset(s, first));
  }

  /// Returns a packed number.
  float number(std::size_t row, std::size_t column) const {
    const std::size_t s = row / strip_;
    return kernel_->packed_number(strip_data(s), kernel_->padded(rows_of(s)), row - s * strip_, column);
  }

  /// Returns memory (rows, columns) for operations that do not write whole strips. Call this before the threads begin, and `wrote` after a
  /// thread has written a part. Once all numbers of a strip are written, it is packed. Each number is written once.
  rows_view<float> plain() {
    if (!plain_) {
      plain_ = plain_memory_.take(rows_ * columns_);
      missing_.resize(strips_);
      for (std::size_t s = 0; s < strips_; ++s) missing_[s] = rows_of(s) * columns_;
    }
    return {plain_, rows_, columns_, columns_};
  }

  /// Call this after writing `columns_written` columns of the rows `first` to `first + count - 1` of `plain`.
  void wrote(std::size_t first, std::size_t count, std::size_t columns_written) {
    for (std::size_t s = first / strip_; s * strip_ < first + count; ++s) {
      const std::size_t begin = std::max(first, s * strip_), end = std::min(first + count, s * strip_ + rows_of(s));
      const std::size_t written = (end - begin) * columns_written;
      // The thread that writes a strip's last numbers reads what the others have written.
      const std::size_t missing = std::atomic_ref(missing_[s]).fetch_sub(written, std::memory_order_acq_rel);
      assert(missing >= written);
      if (missing == written) pack(s, 0, {plain_ + s * strip_ * columns_, rows_of(s), columns_, columns_});
    }
  }

 private:
  std::size_t offset(std::size_t s, std::size_t first) const {
    return s * strip_bytes() + first * kernel_->padded(rows_of(s)) * kernel_->unit_bytes / kernels::pack_inputs;
  }

  std::size_t columns_;
  std::size_t rows_ = 0, depth_ = 0;
  std::size_t strips_ = 0, strip_ = 0;
  const kernels::product_kernel* kernel_ = nullptr;
  std::byte* packed_ = nullptr;
  float* plain_ = nullptr;
  detail::scratch_memory memory_;
  detail::scratch_memory plain_memory_;
  std::vector<std::size_t> missing_;  // (strips): numbers of `plain` that are not written yet
};

}  // namespace v0
}  // namespace lazyprune
