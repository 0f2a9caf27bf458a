// SPDX-License-Identifier: MIT
// Unpacking of quantized weights on any processor.
#pragma once

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

/// Reads `width` bits of each code of a line. `plane` has these bits of all lines.
inline void load_bits(const std::byte* plane, std::size_t line, std::size_t width, unsigned (&bits)[panel_layout::line_codes]) {
  const std::size_t lines = 8 / width, shift = line % lines * width;
  const unsigned mask = (1u << width) - 1;
  plane += line / lines * panel_layout::line_codes;
  for (std::size_t i = 0; i < panel_layout::line_codes; ++i) bits[i] = std::to_integer<unsigned>(plane[i]) >> shift & mask;
}

inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  constexpr std::size_t size = panel_layout::line_codes;
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0, line = 0; group < format.groups(); ++group) {
      float scales[size], bases[size];
      for (std::size_t i = 0; i < size; ++i) {
        const panel_layout::factors by = layout.factors_of(panel, group, i / 2);
        scales[i] = by.scale, bases[i] = by.base;
      }
      for (const std::size_t end = line + format.group / 2; line < end; ++line, tile += line_bytes) {
        unsigned codes[size], upper[size] = {};
        load_bits(panel + layout.codes, line, layout.lower_bits, codes);
        if (layout.upper_bits > 0) load_bits(panel + layout.upper, line, layout.upper_bits, upper);
        std::uint16_t halves[size];
        for (std::size_t i = 0; i < size; ++i)
          halves[i] = bf16_of_float(scales[i] * static_cast<float>(static_cast<int>(codes[i] | upper[i] << layout.lower_bits)) - bases[i]);
        std::memcpy(tile, halves, sizeof halves);
      }
    }
}

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
