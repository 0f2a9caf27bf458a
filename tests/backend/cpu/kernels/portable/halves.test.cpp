// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/halves.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace lazyprune;

TEST_CASE("every f16 number is converted as float_of_f16 does it") {
  std::size_t wrong = 0;
  for (std::uint32_t first = 0; first < 65536; first += kernels::tile_outputs) {
    std::uint16_t halves[kernels::tile_outputs];
    for (std::uint32_t i = 0; i < kernels::tile_outputs; ++i) halves[i] = static_cast<std::uint16_t>(first + i);
    float found[kernels::tile_outputs];
    kernels::portable::widen_halves(reinterpret_cast<const std::byte*>(halves), found);
    for (std::size_t i = 0; i < kernels::tile_outputs; ++i) {
      const float expected = float_of_f16(halves[i]);
      wrong +=
          std::isnan(expected) ? !std::isnan(found[i]) : std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(expected);
    }
  }
  CHECK(wrong == 0);
}
