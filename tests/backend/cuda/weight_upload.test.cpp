// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/weight_upload.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Sends rows of `columns` consecutive numbers, packed by several threads. Returns the numbers that are then on the device.
std::vector<int> sent(device::weight_upload& upload, std::size_t rows, std::size_t columns) {
  on_device<int> there(rows * columns);
  upload.send(reinterpret_cast<std::byte*>(there.data()), rows, columns * sizeof(int),
              [&](std::size_t first, std::size_t last, std::byte* out) {
                std::vector<int> numbers((last - first) * columns);
                std::iota(numbers.begin(), numbers.end(), static_cast<int>(first * columns));
                std::memcpy(out, numbers.data(), numbers.size() * sizeof(int));
              });
  return there.numbers();
}

std::vector<int> counted(std::size_t size) {
  std::vector<int> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

TEST_CASE("rows arrive in order, for any number of buffers and any length of rows") {
  device::weight_upload upload(3);
  CHECK(sent(upload, 0, 4).empty());
  CHECK(sent(upload, 1, 1) == counted(1));
  CHECK(sent(upload, 7, 100'000) == counted(700'000));                           // all rows in one buffer, packed by several threads
  CHECK(sent(upload, 3, 3 << 20) == counted(std::size_t{9} << 20));              // one row in each buffer
  CHECK(sent(upload, 2, (4 << 20) + 1) == counted((std::size_t{8} << 20) + 2));  // a row larger than a buffer
}
