// SPDX-License-Identifier: MIT
// The layout of quantized weights that stay quantized in memory. A panel has a block of inputs of 32 outputs: first their scales, then
// their codes. A line has the codes of four inputs of 16 outputs. The four codes of an output are neighbours, because instructions like
// VPDPBUSD add the products of four neighbouring bytes. The lines 2 i and 2 i + 1 have the inputs 4 i to 4 i + 3 of the first and of the
// second half of the outputs.
//
// Four-bit codes of two lines share 64 bytes: the first line has the low halves of the bytes. Codes of five or six bits have their upper
// bits in a second plane, where 64 bytes have one bit of eight lines, or two bits of four lines.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/block_format.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

/// Writes each of the first `count` columns of 16 rows to 64 contiguous bytes, `stride` bytes after the column before. Elements have 32
/// bits. `count` is at most 16, and rows have 64 bytes, all of which may be read.
using columns_writer = void (*)(const std::byte* const (&rows)[half_outputs], std::size_t count, std::size_t stride, std::byte* to);

/// A columns_writer for all processors.
inline void write_columns(const std::byte* const (&rows)[half_outputs], std::size_t count, std::size_t stride, std::byte* to) {
#if defined(__SSE2__)
  const auto load = [&](std::size_t row, std::size_t column) {
    return _mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + column * 4)));
  };
  for (std::size_t column = 0; column < count; column += 4)
    for (std::size_t row = 0; row < half_outputs; row += 4) {
      __m128 a = load(row, column), b = load(row + 1, column), c = load(row + 2, column), d = load(row + 3, column);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      const __m128 columns[] = {a, b, c, d};
      for (std::size_t i = 0; i < 4 && column + i < count; ++i)
        _mm_storeu_ps(reinterpret_cast<float*>(to + (column + i) * stride + row * 4), columns[i]);
    }
#else
  for (std::size_t column = 0; column < count; ++column)
    for (std::size_t row = 0; row < half_outputs; ++row) std::memcpy(to + column * stride + row * 4, rows[row] + column * 4, 4);
#endif
}

/// Says where the parts of a panel are, in bytes from its start.
struct panel_layout {
  static constexpr std::size_t quad = 4;  // inputs in a line
  static constexpr std::size_t line_codes = quad * half_outputs;

  constexpr explicit panel_layout(const block_format& f)
      : format(f),
        lower_bits(f.bits == 8 ? 8 : 4),
        upper_bits(f.bits - lower_bits),
        leasts(tile_outputs * 2),
        group_scales(leasts + (f.has_least ? tile_outputs * 2 : 0)),
        group_leasts(group_scales + (f.groups() > 1 ? f.groups() * tile_outputs : 0)),
        codes(group_leasts + (f.groups() > 1 && f.has_least ? f.groups() * tile_outputs : 0)),
        upper(codes + f.inputs * tile_outputs * lower_bits / 8),
        bytes(upper + f.inputs * tile_outputs * upper_bits / 8) {}

  /// Returns how many numbers a group has in all formats with such codes for which kernels are compiled. 0: 16 or 32. The fewer kernels
  /// there are, the sooner a program is compiled.
  static constexpr std::size_t group_of(unsigned bits, bool table) { return bits == 4 && !table ? 0 : bits == 6 ? 16 : 32; }
  static constexpr bool has_kernels(const block_format& f) {
    const std::size_t group = group_of(f.bits, f.table != nullptr);
    return group == 0 || group == f.group;
  }

  block_format format;
  std::size_t lower_bits, upper_bits;  // of a code, in the two planes
  // The common scales (32, f16) are first.
  std::size_t leasts;        // common leasts (32, f16), if the format has any
  std::size_t group_scales;  // (groups, 32), signed bytes, if there are several groups
  std::size_t group_leasts;  // (groups, 32), bytes
  std::size_t codes;         // the plane with the lower bits: all bits of eight-bit codes, or four
  std::size_t upper;         // the plane with the upper bits, if there are any
  std::size_t bytes;         // of a panel

  /// Returns the line that has the code of an input of an output.
  static constexpr std::size_t line_of(std::size_t input, std::size_t output) { return input / quad * 2 + output / half_outputs; }
  /// Returns the place of the code in its line.
  static constexpr std::size_t place(std::size_t input, std::size_t output) { return output % half_outputs * quad + input % quad; }

  /// Returns what the code of an input of an output means.
  int code(const std::byte* panel, std::size_t input, std::size_t output) const {
    const std::size_t line = line_of(input, output), at = place(input, output);
    const auto bits = [&](std::size_t plane, std::size_t width) {  // of this line's codes in a plane
      const std::size_t lines = 8 / width;
      return std::to_integer<int>(panel[plane + line / lines * line_codes + at]) >> line % lines * width & ((1 << width) - 1);
    };
    const int code = bits(codes, lower_bits) | (upper_bits > 0 ? bits(upper, upper_bits) << lower_bits : 0);
    return format.meant(static_cast<std::uint8_t>(code));
  }

  /// A number is scale * (code - offset) - base. The factors are exact in float, and so is the product.
  struct factors {
    float scale, base;
    int offset;
    float number(int code) const { return scale * static_cast<float>(code - offset) - base; }
  };

  factors factors_of(const std::byte* panel, std::size_t group, std::size_t output) const {
    const auto half = [&](std::size_t from) {
      std::uint16_t bits;
      std::memcpy(&bits, panel + from + 2 * output, 2);
      return float_of_f16(bits);
    };
    const std::size_t of_group = group * tile_outputs + output;
    float scale = half(0), base = format.has_least ? half(leasts) : 0.0f;
    if (format.groups() > 1) {
      scale *= static_cast<float>(std::to_integer<std::int8_t>(panel[group_scales + of_group]));
      if (format.has_least) base *= static_cast<float>(std::to_integer<std::uint8_t>(panel[group_leasts + of_group]));
    }
    return {scale, base, format.offset};
  }

  /// Writes the blocks of 32 outputs. The block of an output is `stride` blocks after that of the output before.
  void write(const quantized_block* blocks, std::size_t stride, std::byte* panel, columns_writer columns = write_columns) const {
    const std::size_t groups = format.groups();  // a division, which the compiler would repeat, because bytes may alias the format
    for (std::size_t output = 0; output < tile_outputs; ++output) {
      const quantized_block& b = blocks[output * stride];
      std::memcpy(panel + 2 * output, &b.scale, 2);
      if (format.has_least) std::memcpy(panel + leasts + 2 * output, &b.least, 2);
      for (std::size_t g = 0; groups > 1 && g < groups; ++g) {
        panel[group_scales + g * tile_outputs + output] = static_cast<std::byte>(b.scales[g]);
        if (format.has_least) panel[group_leasts + g * tile_outputs + output] = static_cast<std::byte>(b.leasts[g]);
      }
    }
    // A column of `rows` is a quad. In `lines`, it is a part of a line.
    std::byte lines[quantized_block::most_inputs / quad * 2 * line_codes];
    std::byte* const to = lower_bits == 8 ? panel + codes : lines;
    for (std::size_t half = 0; half < 2; ++half)
      for (std::size_t first = 0; first < format.inputs / quad; first += 16) {
        const std::byte* rows[half_outputs];
        for (std::size_t n = 0; n < half_outputs; ++n)
          rows[n] = reinterpret_cast<const std::byte*>(blocks[(half * half_outputs + n) * stride].codes + first * quad);
        columns(rows, std::min(format.inputs / quad - first, std::size_t{16}), 2 * line_codes, to + (2 * first + half) * line_codes);
      }
    if (lower_bits == 4) write_plane<4, 0>(lines, panel + codes);
    if (upper_bits == 1) write_plane<1, 4>(lines, panel + upper);
    if (upper_bits == 2) write_plane<2, 4>(lines, panel + upper);
  }

 private:
  /// Writes `Width` bits of all codes, from bit `First` on, to a plane. Eight codes are shifted at once. The mask removes the bits of their
  /// neighbours.
  template <std::size_t Width, std::size_t First>
  void write_plane(const std::byte* lines, std::byte* plane) const {
    constexpr std::size_t shared = 8 / Width;
    constexpr std::uint64_t mask = 0x0101'0101'0101'0101u * ((1u << Width) - 1);
    for (const std::byte* const end = lines + format.inputs * tile_outputs; lines < end;
         lines += shared * line_codes, plane += line_codes) {
      std::uint64_t bits[line_codes / 8] = {};
      for (std::size_t line = 0; line < shared; ++line)
        for (std::size_t at = 0; at < line_codes / 8; ++at) {
          std::uint64_t eight;
          std::memcpy(&eight, lines + line * line_codes + 8 * at, sizeof eight);
          bits[at] |= (eight >> First & mask) << line * Width;
        }
      std::memcpy(plane, bits, sizeof bits);
    }
  }
};

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
