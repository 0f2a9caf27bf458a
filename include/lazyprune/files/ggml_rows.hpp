// SPDX-License-Identifier: MIT
// Reads matrices that cannot be used as they are in a file: quantized matrices and matrices with interleaved rows. Each row is converted
// when it is packed, so there is never a converted copy of the whole matrix. A backend can also read the blocks, and keep them.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/files/ggml_type.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Returns the index that row `row` of q or k has in a GGUF file of a Llama model. Such files interleave the two halves of each head,
/// because llama.cpp's RoPE for these models rotates neighbouring rows.
constexpr std::size_t interleaved_row(std::size_t row, std::size_t head_dim) {
  const std::size_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

}  // namespace detail

/// Reads matrices of one type whose rows are whole blocks. Plain values are copied. `read` makes float or bf16 of quantized values.
class ggml_rows final : public row_reader {
 public:
  /// `head_dim`: the width of a head if the file interleaves the rows of heads, else 0. `keeps`: whether backends may keep the blocks.
  explicit ggml_rows(const ggml_type& type, std::size_t head_dim = 0, bool keeps = false)
      : type_(type), head_dim_(head_dim), keeps_(keeps) {}

  std::size_t stored_row_bytes(const tensor& matrix) const override {
    return head_dim_ > 0 ? 0 : matrix.columns / type_.values * type_.bytes;
  }
  const block_format* format() const override { return keeps_ ? type_.format : nullptr; }

  void read_blocks(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, quantized_block* to) const override {
    const std::byte* const from = place(matrix, row, first * type_.values);
    // Backends read some blocks of many rows in turn. The processor does not find this pattern itself.
    for (std::size_t ahead = count * type_.bytes; ahead < 2 * count * type_.bytes; ahead += 64) __builtin_prefetch(from + ahead);
    type_.read_blocks(from, count, to);
  }

  void read(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
    const std::byte* from = place(matrix, row, first);
    if (type_.values == 1) {
      assert(type_.bytes == size_of(matrix.type));
      std::memcpy(to, from, count * type_.bytes);
      return;
    }
    float values[piece];
    for (std::size_t done = 0; done < count; done += piece) {
      const std::size_t some = std::min(piece, count - done), blocks = some / type_.values;
      type_.dequantize(from, blocks, values);
      from += blocks * type_.bytes;
      to = store(values, some, matrix.type, to);
    }
  }

 private:
  // How many values are converted at a time. The floats are so few that they are still in the L1 cache when they are rounded to bf16.
  static constexpr std::size_t piece = 1024;
  static_assert(piece % unit == 0);

  /// Returns the place of column `first` of a row in the file.
  const std::byte* place(const tensor& matrix, std::size_t row, std::size_t first) const {
    const std::size_t in_file = head_dim_ > 0 ? detail::interleaved_row(row, head_dim_) : row;
    return matrix.data + (in_file * matrix.columns + first) / type_.values * type_.bytes;
  }

  static std::byte* store(const float* values, std::size_t count, dtype as, std::byte* to) {
    if (as == dtype::f32) {
      std::memcpy(to, values, count * 4);
      return to + count * 4;
    }
    // The loop does not write to `to`: bytes may alias the floats, so the compiler would not vectorize the loop.
    std::uint16_t bits[piece];
    for (std::size_t i = 0; i < count; ++i) bits[i] = bf16_of_float(values[i]);
    std::memcpy(to, bits, count * 2);
    return to + count * 2;
  }

  const ggml_type& type_;
  std::size_t head_dim_;
  bool keeps_;
};

}  // namespace v0
}  // namespace lazyprune
