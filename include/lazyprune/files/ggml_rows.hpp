// SPDX-License-Identifier: MIT
// What cannot be handed on as it lies in a file: matrices of quantized types, and those whose rows stand in another order. A row becomes
// numbers when it is packed, so that nothing as large as the matrix is written for it.
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

/// The place, among the rows of a llama in a GGUF file, of a row of its q or k: there each head's two halves are interleaved, for a rotary
/// embedding that turns neighbours.
constexpr std::size_t interleaved_row(std::size_t row, std::size_t head_dim) {
  const std::size_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

}  // namespace detail

/// Reads matrices of one type whose rows are whole blocks: of a plain type as they are, of a quantized one as float or bf16.
class ggml_rows final : public row_reader {
 public:
  /// `head_dim`: of matrices whose rows are interleaved, else 0.
  explicit ggml_rows(const ggml_type& type, std::size_t head_dim = 0) : type_(type), head_dim_(head_dim) {}

  void read(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
    const std::size_t place = head_dim_ > 0 ? detail::interleaved_row(row, head_dim_) : row;
    const std::byte* from = matrix.data + (place * matrix.columns + first) / type_.values * type_.bytes;
    if (type_.values == 1) {
      assert(type_.bytes == size_of(matrix.type));
      std::memcpy(to, from, count * type_.bytes);
      return;
    }
    float values[part];
    for (std::size_t done = 0; done < count; done += part) {
      const std::size_t some = std::min(part, count - done), blocks = some / type_.values;
      type_.dequantize(from, blocks, values);
      from += blocks * type_.bytes;
      to = store(values, some, matrix.type, to);
    }
  }

 private:
  // A part of a row at a time, so that what is written as bf16 is rounded while the nearest cache has it.
  static constexpr std::size_t part = 1024;
  static_assert(part % unit == 0);

  static std::byte* store(const float* values, std::size_t count, dtype as, std::byte* to) {
    if (as == dtype::f32) {
      std::memcpy(to, values, count * 4);
      return to + count * 4;
    }
    std::uint16_t bits[part];  // of its own, so that the loop is vectorized: bytes might be anything, the floats as well
    for (std::size_t i = 0; i < count; ++i) bits[i] = bf16_of_float(values[i]);
    std::memcpy(to, bits, count * 2);
    return to + count * 2;
  }

  const ggml_type& type_;
  std::size_t head_dim_;
};

}  // namespace v0
}  // namespace lazyprune
