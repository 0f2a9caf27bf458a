// SPDX-License-Identifier: MIT
// Unpacking of quantized weights on any processor.
#pragma once

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0; group < format.groups(); ++group)
      for (std::size_t output = 0; output < tile_outputs; ++output) {
        const panel_layout::factors by = layout.factors_of(panel, group, output);
        for (std::size_t i = group * format.group; i < (group + 1) * format.group; ++i) {
          const std::uint16_t bits = bf16_of_float(by.number(layout.code(panel, i / 2, panel_layout::place(i, output))));
          std::memcpy(tile + tile_offset(dtype::bf16, done + i, output), &bits, sizeof bits);
        }
      }
}

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
