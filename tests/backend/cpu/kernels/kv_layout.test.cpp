// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("a panel has scales, and then one line after another, of 32 codes each") {
  using panel = kernels::q8_0_panel;
  CHECK(panel::line(0) == 64);
  CHECK(panel::line(1) == panel::line(0) + 32);
  CHECK(panel::bytes == panel::line(31) + 32);
  std::byte scales[64] = {};
  scales[6] = std::byte{0x00}, scales[7] = std::byte{0x3e};  // 1.5
  CHECK(panel::scale(scales, 3) == 1.5f);
  CHECK(panel::scale(scales, 2) == 0.0f);
}
