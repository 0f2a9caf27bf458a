// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/locked_memory.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("rows are read back, whether or not they fit into the page-locked buffer") {
  const std::size_t room = device::read_back::room_bytes / sizeof(int);
  device::read_back back;
  for (const std::size_t rows : {std::size_t{0}, std::size_t{3}, room / 4, room}) {
    std::vector<int> numbers(rows * 6), read(rows * 5, -1), expected(rows * 5, -1);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (std::size_t i = 0; i < rows * 5; ++i)
      if (i % 5 < 4) expected[i] = static_cast<int>(i / 5 * 6 + i % 5);
    on_device<int> there(numbers);
    back.copy(read.data(), 5 * sizeof(int), there.data(), 6 * sizeof(int), 4 * sizeof(int), rows);
    CHECK(read == expected);
  }
}

TEST_CASE("page-locked memory is moved and freed") {
  device::locked_memory a(16, "a test"), b = std::move(a);
  CHECK(a.data() == nullptr);
  CHECK(b.size() == 16);
  a = std::move(b);
  CHECK(a.size() == 16);
}
