// SPDX-License-Identifier: MIT
// The contract of product_kernel::unpack_f16 and unpack_q8_0.
#pragma once

#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <backend/samples.hpp>

namespace lazyprune_test {

/// Checks each number of a tile of type `to`, and that nothing after the tile is written. `number(input, output)` is the number.
template <class Number>
void check_unpacked(const std::vector<std::byte>& tile, lazyprune::dtype to, std::size_t inputs, const Number& number) {
  using namespace lazyprune;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < inputs; ++i)
    for (std::size_t n = 0; n < kernels::tile_outputs; ++n) {
      const float exact = number(i, n), expected = to == dtype::bf16 ? float_of_bf16(bf16_of_float(exact)) : exact;
      float found;
      widen(tensor{to, 1, 1, tile.data() + kernels::tile_offset(to, i, n)}, 0, 1, &found);
      wrong += std::isnan(expected) ? !std::isnan(found) : found != expected;
    }
  CHECK(wrong == 0);
  for (std::size_t i = tile.size() - 64; i < tile.size(); ++i) REQUIRE(tile[i] == std::byte{7});
}

/// Every f16 number, infinities and NaN too.
template <class Unpack>
void check_unpack_f16(const Unpack& unpack) {
  using namespace lazyprune;
  constexpr std::size_t inputs = 65536 / kernels::tile_outputs;
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<std::byte> tile(inputs * kernels::line_bytes + 64, std::byte{7});
  unpack(reinterpret_cast<const std::byte*>(halves.data()), inputs, tile.data());
  check_unpacked(tile, dtype::f32, inputs,
                 [&](std::size_t i, std::size_t n) { return float_of_f16(halves[i * kernels::tile_outputs + n]); });
}

/// Panels of keys and of values with random codes. One scale is infinite.
template <class Unpack>
void check_unpack_q8_0(const Unpack& unpack, lazyprune::dtype to) {
  using namespace lazyprune;
  using panel = kernels::q8_0_panel;
  constexpr std::size_t panels = 3, inputs = panels * panel::inputs;
  std::vector<std::byte> packed(panels * panel::bytes);
  std::mt19937 random(1);
  for (std::byte& code : packed) code = static_cast<std::byte>(static_cast<int>(random() % 255) - 127);
  const auto scales = normal_floats(panels * kernels::tile_outputs, 2);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::uint16_t half = i == 40 ? 0x7c00 : f16_of_float(scales[i]);
    std::memcpy(packed.data() + i / kernels::tile_outputs * panel::bytes + i % kernels::tile_outputs * 2, &half, 2);
  }
  for (const bool values : {false, true}) {
    std::vector<std::byte> tile(kernels::tile_offset(to, inputs, 0) + 64, std::byte{7});
    unpack(packed.data(), inputs, values, tile.data());
    check_unpacked(tile, to, inputs, [&](std::size_t i, std::size_t n) {
      const std::byte* const from = packed.data() + i / panel::inputs * panel::bytes;
      const auto code = std::to_integer<std::int8_t>(from[panel::line(i % panel::inputs) + n]);
      return panel::scale(from, values ? i % panel::inputs : n) * static_cast<float>(code);
    });
  }
}

}  // namespace lazyprune_test
