// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/block_pool.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace lazyprune;

TEST_CASE("a pool allocates the reserved blocks that are not in use, and takes back no more than are reserved") {
  block_pool<float> pool;
  pool.reserve(3, 1, 8);
  CHECK(pool.size() == 2);
  shared_array<float> first = pool.take(8);
  CHECK(first.bytes() == 32);
  const float* const memory = first.data();
  CHECK(pool.size() == 1);
  pool.give(std::move(first), 1);
  CHECK(pool.size() == 2);
  CHECK(pool.take(8).data() == memory);

  pool.give(shared_array<float>(8), 2);  // two blocks in use and one spare are the three reserved blocks
  CHECK(pool.size() == 1);
  pool.reserve(2, 0, 8);  // three blocks stay reserved, although this call asks for two
  CHECK(pool.size() == 3);
}

TEST_CASE("an empty pool allocates a block when it is asked for one") {
  block_pool<float> pool;
  CHECK(pool.take(5).bytes() == 20);
  pool.give(shared_array<float>(5), 0);
  CHECK(pool.size() == 0);
}

TEST_CASE("a pool keeps no block that a copy shares, and its own copy is empty") {
  block_pool<float> pool;
  pool.reserve(1, 1, 4);
  shared_array<float> block(4);
  const shared_array<float> copy = block;
  pool.give(std::move(block), 0);
  CHECK(pool.size() == 0);
  pool.give(shared_array<float>(4), 0);
  CHECK(pool.size() == 1);
  CHECK(block_pool<float>(pool).size() == 0);
}
