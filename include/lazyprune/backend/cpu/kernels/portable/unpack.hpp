// SPDX-License-Identifier: MIT
// Unpacking of quantized weights on any processor.
#pragma once

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

/// Adds `Width` bits of each code of a line, from bit `First` on. `plane` has these bits of all lines. Compilers vectorize shifts of bytes
/// only by constants, so there is a function for each place of a line among the lines that share bytes.
template <std::size_t Width, std::size_t First, std::size_t Place = 0>
void load_bits(const std::byte* plane, std::size_t line, std::uint8_t (&codes)[panel_layout::line_codes]) {
  constexpr std::size_t lines = 8 / Width;
  if constexpr (Place + 1 < lines)
    if (line % lines != Place) return load_bits<Width, First, Place + 1>(plane, line, codes);
  constexpr unsigned mask = (1u << Width) - 1;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(plane + line / lines * panel_layout::line_codes);
  for (std::size_t i = 0; i < panel_layout::line_codes; ++i)
    codes[i] = static_cast<std::uint8_t>(codes[i] | (bytes[i] >> Place * Width & mask) << First);
}

/// Loads what the codes of a line mean.
inline void load_line(const panel_layout& layout, const std::byte* panel, std::size_t line,
                      std::uint8_t (&codes)[panel_layout::line_codes]) {
  if (layout.lower_bits == 8) {
    std::memcpy(codes, panel + layout.codes + line * panel_layout::line_codes, sizeof codes);
    return;
  }
  std::memset(codes, 0, sizeof codes);
  load_bits<4, 0>(panel + layout.codes, line, codes);
  if (layout.upper_bits == 1) load_bits<1, 4>(panel + layout.upper, line, codes);
  if (layout.upper_bits == 2) load_bits<2, 4>(panel + layout.upper, line, codes);
  if (layout.format.table)
    for (std::uint8_t& code : codes) code = layout.format.table[code];
}

inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  constexpr std::size_t size = panel_layout::line_codes, quad = panel_layout::quad;
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0, line = 0; group < format.groups(); ++group) {
      panel_layout::factors by[tile_outputs];
      for (std::size_t output = 0; output < tile_outputs; ++output) by[output] = layout.factors_of(panel, group, output);
      for (const std::size_t end = line + format.group / quad * 2; line < end; line += 2, tile += 2 * line_bytes)
        for (std::size_t half = 0; half < 2; ++half) {
          std::uint8_t codes[size];
          load_line(layout, panel, line + half, codes);
          std::uint16_t pairs[2][half_outputs][2];
          for (std::size_t i = 0; i < size; ++i) {
            const std::size_t output = half * half_outputs + i / quad;
            pairs[i % quad / 2][i / quad][i % 2] = bf16_of_float(by[output].number(codes[i]));
          }
          for (std::size_t l = 0; l < 2; ++l) std::memcpy(tile + l * line_bytes + half * cache_line, pairs[l], cache_line);
        }
    }
}

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
