// SPDX-License-Identifier: MIT
// The layout of keys and values in f16 and in q8_0. Products multiply f32 or bf16, so attention unpacks them to tiles (product_kernel.hpp).
//
// A line has one input of 32 outputs, as in a tile of f32. In f16, it takes 64 bytes. In q8_0, 32 inputs are a panel: 32 scales in f16, and
// then 32 lines of codes from -127 to 127. A number is its code times a scale. Each slot has its own scale. So a panel of keys has a scale
// for each output, and a panel of values has one for each input. A scale is the largest absolute value of its 32 numbers, divided by 127.
// If that value is less than 0.008, f16 rounds the scale by more than 2^-11, like ggml's type Q8_0. Finite numbers that f16 cannot hold
// become the largest that it can, 65504.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

struct f16_line {
  static constexpr std::size_t bytes = 2 * tile_outputs;
};

/// The places of the parts of a panel, in bytes from its start.
struct q8_0_panel {
  static constexpr std::size_t inputs = 32, codes = 2 * tile_outputs, bytes = codes + inputs * tile_outputs;

  /// Returns the place of a line.
  static constexpr std::size_t line(std::size_t input) { return codes + input * tile_outputs; }

  /// Returns a scale. For keys, `i` is an output. For values, it is an input.
  static float scale(const std::byte* panel, std::size_t i) {
    std::uint16_t bits;
    std::memcpy(&bits, panel + 2 * i, 2);
    return float_of_f16(bits);
  }
};

/// How many bytes ahead lines are prefetched while they are unpacked.
inline constexpr std::size_t kv_ahead = 128 * cache_line;

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
