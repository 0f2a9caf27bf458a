// SPDX-License-Identifier: MIT
// The contract of product_kernel::unpack.
#pragma once

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include <backend/samples.hpp>

namespace lazyprune_test {

/// Returns panels of random blocks. Block b of an output is random_block(format, output, b).
inline std::vector<std::byte> random_panels(const lazyprune::kernels::panel_layout& layout, std::uint32_t panels) {
  using namespace lazyprune;
  std::vector<std::byte> packed(panels * layout.bytes, std::byte{0xff});
  for (std::uint32_t b = 0; b < panels; ++b) {
    quantized_block blocks[kernels::tile_outputs];
    for (std::uint32_t output = 0; output < kernels::tile_outputs; ++output) blocks[output] = random_block(layout.format, output, b);
    layout.write(blocks, 1, packed.data() + b * layout.bytes);
  }
  return packed;
}

/// Checks that `unpack` writes each number of some panels rounded to bf16, at its place in a tile.
template <class Unpack>
void check_unpack(const Unpack& unpack) {
  using namespace lazyprune;
  for (const block_format& format : block_formats) {
    CAPTURE(format.bits);
    CAPTURE(format.inputs);
    const kernels::panel_layout layout(format);
    constexpr std::uint32_t panels = 3;
    const std::size_t inputs = panels * format.inputs;
    const std::vector<std::byte> packed = random_panels(layout, panels);
    std::vector<std::byte> tile(inputs * kernels::tile_outputs * 2 + 64, std::byte{7});
    unpack(layout, packed.data(), inputs, tile.data());
    std::size_t wrong = 0;
    for (std::uint32_t b = 0; b < panels; ++b)
      for (std::uint32_t output = 0; output < kernels::tile_outputs; ++output) {
        const quantized_block expected = random_block(format, output, b);
        for (std::size_t i = 0; i < format.inputs; ++i) {
          std::uint16_t bits;
          std::memcpy(&bits, tile.data() + kernels::tile_offset(dtype::bf16, b * format.inputs + i, output), sizeof bits);
          wrong += float_of_bf16(bits) != float_of_bf16(bf16_of_float(number_of(format, expected, i)));  // 0 equals -0
        }
      }
    CHECK(wrong == 0);
    for (std::size_t i = tile.size() - 64; i < tile.size(); ++i) REQUIRE(tile[i] == std::byte{7});
  }
}

}  // namespace lazyprune_test
