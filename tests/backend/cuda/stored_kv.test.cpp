// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/stored_kv.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;
using ids = std::vector<std::uint32_t>;

TEST_CASE("blocks are allocated with their slots, in the type of the first slots") {
  device::stored_kv kv(2, 5);
  CHECK(kv.pitch() == 8);
  CHECK(kv.width() == 16);
  kv.reserve(ids{0, 256}, dtype::bf16);
  CHECK(kv.size() == 257);
  CHECK(kv.bytes() == 2 * 2 * 256 * 16 * 2);
  kv.reserve(ids{1}, dtype::f32);
  CHECK(kv.type() == dtype::bf16);
  kv.truncate(0);
  CHECK(kv.bytes() == 2 * 2 * 256 * 16 * 2);
  kv.reserve(ids{1}, dtype::f32);
  CHECK(kv.type() == dtype::f32);
  CHECK(kv.bytes() == 2 * 256 * 16 * 4);
}

TEST_CASE("a copy shares blocks until one of their slots is reserved for writing") {
  device::stored_kv kv(1, 8);
  kv.reserve(ids{0, 300}, dtype::f32);
  device::stored_kv copy = kv;
  std::vector<const void*> before, after;
  copy.reserve(ids{300}, dtype::f32);
  kv.addresses(before);
  copy.addresses(after);
  CHECK(before[0] == after[0]);
  CHECK(before[1] != after[1]);
  device::synchronize();
}
