// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/key_ranks.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

TEST_CASE("ranks: the index of a slot's token among the active, and what of a tile can be seen") {
  key_ranks ranks;
  std::vector<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < 40; ++i) slots.push_back(32 + i);  // all of tile 1, some of tile 2
  slots.push_back(5);                                              // a late token in tile 0
  ranks.set(slots, 1);
  CHECK(ranks.of_tile(0)[5] == 40);
  CHECK(ranks.of_tile(0)[6] == key_ranks::inactive);
  for (std::int32_t k = 0; k < 32; ++k) CHECK(ranks.of_tile(1)[k] == k);
  CHECK(ranks.in_order(1));
  CHECK_FALSE(ranks.in_order(0));
  CHECK_FALSE(ranks.in_order(2));
  CHECK(ranks.any(0, 41));
  CHECK_FALSE(ranks.any(0, 40));
  CHECK(ranks.any(1, 1));
  CHECK_FALSE(ranks.any(1, 0));
  CHECK(ranks.all(1, 32));
  CHECK_FALSE(ranks.all(1, 31));
  CHECK_FALSE(ranks.all(2, 1000));  // slots that nobody has, or that are not active
  CHECK_FALSE(ranks.any(3, 1000));

  std::ranges::reverse(slots);  // the same tile, its tokens the other way round
  ranks.set(slots, 1);
  CHECK_FALSE(ranks.in_order(1));
}
