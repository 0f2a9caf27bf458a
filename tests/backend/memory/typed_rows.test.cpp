// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/typed_rows.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace lazyprune;
using ids = std::vector<std::uint32_t>;

TEST_CASE("an empty store may change its type, and a store with rows keeps its type") {
  typed_rows<> rows(10);
  rows.hold(64, dtype::bf16);
  CHECK(rows.type() == dtype::bf16);
  CHECK(rows.bytes() == 64 * 10 * 2);
  rows.reserve(ids{3}, dtype::bf16);
  rows.reserve(ids{4}, dtype::f32);
  CHECK(rows.type() == dtype::bf16);
  CHECK(rows.size() == 2);
  CHECK(static_cast<const std::byte*>(rows.row(4)) - static_cast<const std::byte*>(rows.row(3)) == 20);
  rows.release(ids{3, 4});
  rows.reserve(ids{0, 1}, dtype::f32);
  CHECK(rows.type() == dtype::f32);
  CHECK(static_cast<const std::byte*>(rows.row(1)) - static_cast<const std::byte*>(rows.row(0)) == 40);
}
