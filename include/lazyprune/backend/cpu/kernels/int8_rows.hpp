// SPDX-License-Identifier: MIT
// The layout of activations that are rounded to 8 bits for products with quantized weights.
//
// A block has 32 inputs of a row. Its scale is its largest absolute value, divided by 127. A number of the block becomes a code from -127
// to 127: the number divided by the scale, rounded to the nearest integer, ties to even. If the largest absolute value is less than 1e-30,
// all codes are zeros. If it is not finite, they are zeros too, but the scale is not finite, so the row's sums are not finite either.
//
// In a packed strip, a block of all rows is followed by the next block. A block has the codes (8, rows, 4), the scales (rows), and the sums
// (rows, 2) of the first and of the last 16 codes of each row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

/// How many bytes ahead kernels prefetch panels: more than the largest panel has, because its two planes are read side by side.
inline constexpr std::size_t int8_ahead = 128 * cache_line;

/// The place of each part of a block of `rows` packed rows, in bytes.
struct int8_block {
  static constexpr std::size_t inputs = pack_inputs, quads = inputs / panel_layout::quad;
  static constexpr std::size_t row_bytes = inputs + sizeof(float) + 2 * sizeof(std::int16_t);
  static constexpr float most = 127.0f, least = 1e-30f;

  std::size_t rows;

  std::size_t bytes() const { return rows * row_bytes; }
  std::size_t codes(std::size_t quad, std::size_t row) const { return (quad * rows + row) * panel_layout::quad; }
  std::size_t scale(std::size_t row) const { return rows * inputs + row * sizeof(float); }
  std::size_t sums(std::size_t row) const { return rows * (inputs + sizeof(float)) + row * 2 * sizeof(std::int16_t); }
};

/// The layout of unpacked weights: for each 32 inputs of 32 outputs the codes, as lines of a panel with 8 bits (panel_layout.hpp), then the
/// factors of each group, as floats. A kernel may store numbers from -128 to 127 in place of codes with 8 bits.
struct int8_tile {
  explicit int8_tile(const block_format& format)
      : groups(pack_inputs / format.group),
        bases(scales + groups * tile_outputs * sizeof(float)),
        bytes(format.has_least ? 2 * bases - scales : bases) {}

  // In bytes from the start of 32 inputs, but for `groups`.
  static constexpr std::size_t scales = pack_inputs * tile_outputs;  // (groups, 32)
  std::size_t groups;
  std::size_t bases;  // (groups, 32), if the format has any
  std::size_t bytes;
};

/// product_kernel::unpacked_bytes of these kernels.
inline std::size_t unpacked_int8_bytes(const block_format& format) { return int8_tile(format).bytes; }

/// product_kernel::packed_number of activations in 8 bits.
inline float packed_int8(const std::byte* packed, std::size_t rows, std::size_t row, std::size_t input) {
  const int8_block block{rows};
  packed += input / block.inputs * block.bytes();
  input %= block.inputs;
  float scale;
  std::memcpy(&scale, packed + block.scale(row), sizeof scale);
  return scale *
         static_cast<float>(static_cast<std::int8_t>(packed[block.codes(input / panel_layout::quad, row) + input % panel_layout::quad]));
}

/// Returns the kernels of a path, with what all kernels of 8 bits have in common.
constexpr product_kernel with_int8_rows(product_kernel k) {
  k.unit_bytes = int8_block::row_bytes;
  k.line_inputs = panel_layout::quad;
  k.int8 = true;
  k.packed_number = packed_int8;
  k.unpacked_bytes = unpacked_int8_bytes;
  k.widen = nullptr;
  k.multiply_wide = nullptr;
  return k;
}

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
