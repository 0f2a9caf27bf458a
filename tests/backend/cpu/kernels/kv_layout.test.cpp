// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/kv_layout.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <backend/samples.hpp>
#include <lazyprune/backend/cpu/packed_kv.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("in q8_0, a slot's codes and its scale are at their places in the panels of keys and of values") {
  using panel = kernels::q8_0_panel;
  packed_kv kv(1, 32);
  std::vector<float> numbers(5 * 32);
  for (std::size_t i = 0; i < 32; ++i) numbers[3 * 32 + i] = 2.0f * (static_cast<float>(i) - 31.0f + 127.0f);  // 2 * 127 is the largest
  const guarded<float> rows(5, 32, numbers);
  kv.put(std::vector<std::uint32_t>{0, 1, 2, 3, 4}, rows.view(), rows.view(), dtype::q8_0, 1);
  const std::byte *keys = kv.key_tile(0, 0, 0), *values = kv.value_tile(0, 0, 0, 0);
  CHECK(panel::scale(keys, 3) == 2.0f);
  CHECK(panel::scale(values, 3) == 2.0f);
  CHECK(panel::scale(keys, 2) == 0.0f);
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(std::to_integer<int>(keys[panel::line(i) + 3]) == 96 + static_cast<int>(i));
    CHECK(std::to_integer<int>(values[panel::line(3) + i]) == 96 + static_cast<int>(i));
  }
}
