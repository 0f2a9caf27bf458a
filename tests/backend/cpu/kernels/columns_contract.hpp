// SPDX-License-Identifier: MIT
// This test holds for each columns_writer.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune_test {

inline void check_columns(lazyprune::kernels::columns_writer write) {
  using lazyprune::kernels::half_outputs;
  constexpr std::uint32_t columns = 16, room = 20;  // numbers of a row that are read; numbers from one written column to the next
  for (std::size_t count = 0; count <= columns; ++count) {
    CAPTURE(count);
    std::uint32_t numbers[half_outputs][columns];
    const std::byte* rows[half_outputs];
    for (std::uint32_t r = 0; r < half_outputs; ++r) {
      for (std::uint32_t c = 0; c < columns; ++c) numbers[r][c] = 100 * r + c;
      rows[r] = reinterpret_cast<const std::byte*>(numbers[r]);
    }
    std::vector<std::uint32_t> to((columns + 1) * room, 7);
    write(rows, count, room * sizeof(std::uint32_t), reinterpret_cast<std::byte*>(to.data()));
    std::size_t wrong = 0;
    for (std::uint32_t c = 0; c <= columns; ++c)
      for (std::uint32_t r = 0; r < room; ++r) wrong += to[c * room + r] != (c < count && r < half_outputs ? 100 * r + c : 7);
    CHECK(wrong == 0);
  }
}

}  // namespace lazyprune_test
