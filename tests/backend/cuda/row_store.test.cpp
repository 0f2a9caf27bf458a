// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/row_store.hpp>

#include <doctest/doctest.h>

#include <tested_device.hpp>

using namespace lazyprune;
using ids = std::vector<std::uint32_t>;

TEST_CASE("the first rows decide the type of a store on the device, and released rows are freed") {
  device::row_store rows(7);
  rows.reserve(ids{3, 64}, dtype::bf16);
  CHECK(rows.type() == dtype::bf16);
  CHECK(rows.size() == 2);
  CHECK(rows.bytes() == 2 * 64 * 7 * 2);
  CHECK(lazyprune_test::lies_on_device(rows.row(64)));
  CHECK(static_cast<const std::byte*>(rows.row(3)) - static_cast<const std::byte*>(std::as_const(rows).row(3)) == 0);
  rows.release(ids{64});
  CHECK(rows.bytes() == 64 * 7 * 2);
  rows.retain([](auto&&) {});
  CHECK(rows.bytes() == 0);
  rows.reserve(ids{0}, dtype::f32);
  CHECK(rows.type() == dtype::f32);
  device::synchronize();
}
