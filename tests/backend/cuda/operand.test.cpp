// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/operand.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <backend/samples.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Returns all numbers of the operand's rows, the padding too.
template <class T>
std::vector<T> numbers_of(const device::operand& x) {
  return numbers_at(static_cast<const T*>(x.data()), x.rows() * x.pitch());
}

}  // namespace

TEST_CASE("an operand on the device has as many rows as it was prepared for, and keeps its memory") {
  device::operand x(7);
  CHECK(x.columns() == 7);
  CHECK(x.pitch() == 8);
  CHECK(x.rows() == 0);
  CHECK(x.bytes() == 0);
  x.prepare(5, dtype::bf16);
  CHECK(x.rows() == 5);
  CHECK(x.type() == dtype::bf16);
  CHECK(x.bytes() == 5 * 8 * sizeof(std::uint16_t));
  x.prepare(3, dtype::bf16);
  CHECK(x.rows() == 3);
  CHECK(x.bytes() == 5 * 8 * sizeof(std::uint16_t));
  x.prepare(6, dtype::bf16);
  CHECK(x.bytes() == 80 + 80 / 2);  // half as much again
}

TEST_CASE("zeros follow the last number of an operand's row, also after it had another type or other rows") {
  const auto x = normal_floats(6 * 5, 1);
  device::operand operand(5);
  for (int again = 0; again < 2; ++again) {
    for (const std::size_t rows : {2u, 6u, 3u}) {
      operand.prepare(rows, dtype::bf16);
      write_rows(operand, x);
      const auto halves = numbers_of<std::uint16_t>(operand);
      for (std::size_t i = 0; i < halves.size(); ++i) CHECK(halves[i] == (i % 8 < 5 ? bf16_of_float(x[i / 8 * 5 + i % 8]) : 0));
    }
    operand.prepare(4, dtype::f32);
    write_rows(operand, x);
    const auto floats = numbers_of<float>(operand);
    for (std::size_t i = 0; i < floats.size(); ++i) CHECK(floats[i] == (i % 8 < 5 ? x[i / 8 * 5 + i % 8] : 0));
  }
}
