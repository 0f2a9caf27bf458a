// SPDX-License-Identifier: MIT
// Unpacking of keys and values to tiles of f32, on any processor.
#pragma once

#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>
#include <lazyprune/backend/cpu/kernels/portable/halves.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

inline void unpack_f16(const std::byte* lines, std::size_t inputs, std::byte* tile) {
  auto* to = reinterpret_cast<float*>(tile);
  for (std::size_t i = 0; i < inputs; ++i, lines += f16_line::bytes, to += tile_outputs) widen_halves(lines, to);
}

inline void unpack_q8_0(const std::byte* panels, std::size_t inputs, bool values, std::byte* tile) {
  auto* to = reinterpret_cast<float*>(tile);
  for (std::size_t k = 0; k < inputs; k += q8_0_panel::inputs, panels += q8_0_panel::bytes) {
    float scales[tile_outputs];
    widen_halves(panels, scales);
    for (std::size_t i = 0; i < q8_0_panel::inputs; ++i, to += tile_outputs) {
      std::int8_t codes[tile_outputs];
      std::memcpy(codes, panels + q8_0_panel::line(i), sizeof codes);
      for (std::size_t n = 0; n < tile_outputs; ++n) to[n] = scales[values ? i : n] * static_cast<float>(codes[n]);
    }
  }
}

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
