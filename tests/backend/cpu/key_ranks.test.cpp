// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/key_ranks.hpp>

#include <doctest/doctest.h>

#include <numeric>

using namespace lazyprune;

TEST_CASE("the rank of a slot is the index of its token among the active tokens, and ranks tell which tiles a row sees") {
  key_ranks ranks;
  std::vector<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < 40; ++i) slots.push_back(32 + i);  // all of tile 1, some of tile 2
  slots.push_back(5);                                              // a late token in tile 0
  ranks.set(slots, {0, 41});
  CHECK(ranks.first_block() == 0);
  CHECK(ranks.end_block() == 1);
  CHECK(ranks.of_tile(0)[5] == 40);
  CHECK(ranks.of_tile(0)[6] == key_ranks::inactive);
  for (std::int32_t k = 0; k < 32; ++k) CHECK(ranks.of_tile(1)[k] == k);
  CHECK(ranks.in_order(1));
  CHECK_FALSE(ranks.in_order(0));
  CHECK_FALSE(ranks.in_order(2));
  CHECK(ranks.any(0, {0, 41}));
  CHECK(ranks.any(0, {40, 41}));
  CHECK_FALSE(ranks.any(0, {0, 40}));
  CHECK(ranks.any(1, {0, 1}));
  CHECK(ranks.any(1, {31, 41}));
  CHECK_FALSE(ranks.any(1, {0, 0}));
  CHECK_FALSE(ranks.any(1, {32, 41}));
  CHECK_FALSE(ranks.any(2, {40, 41}));  // inactive slots do not count
  CHECK(ranks.all(1, {0, 32}));
  CHECK_FALSE(ranks.all(1, {0, 31}));
  CHECK_FALSE(ranks.all(1, {1, 32}));
  CHECK_FALSE(ranks.all(2, {0, 1000}));  // the tile has inactive slots
  CHECK_FALSE(ranks.any(3, {0, 1000}));

  std::ranges::reverse(slots);  // the same tiles, with their tokens in reverse order
  ranks.set(slots, {0, 41});
  CHECK_FALSE(ranks.in_order(1));
}

TEST_CASE("ranks are set only for the blocks of the requested tokens") {
  key_ranks ranks;
  std::vector<std::uint32_t> slots(3000);
  std::iota(slots.begin(), slots.end(), 0u);
  ranks.set(slots, {0, 3000});
  const std::size_t all = ranks.bytes();
  key_ranks few;
  few.set(slots, {2303, 2400});
  CHECK(few.first_block() == 8);
  CHECK(few.end_block() == 10);
  CHECK(few.bytes() < all / 4);
  CHECK(few.of_tile(72)[0] == 2304);
  CHECK(few.of_tile(71)[30] == key_ranks::inactive);  // before the requested tokens
  CHECK(few.of_tile(71)[31] == 2303);
  CHECK(few.any(71, {2303, 2400}));
  CHECK_FALSE(few.any(70, {2303, 2400}));
  CHECK(few.all(73, {2303, 2400}));
}
