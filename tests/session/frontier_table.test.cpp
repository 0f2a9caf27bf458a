// SPDX-License-Identifier: MIT
#include <lazyprune/session/frontier_table.hpp>

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <vector>

using lazyprune::frontier_table;
using lazyprune::position;

TEST_CASE("a slot is freed when the frontier moves on, and used again") {
  frontier_table table;
  table.append(4);
  CHECK(table.known() == 4);
  for (const position t : {0u, 1u, 2u}) {
    table.advance(t, 1);
    table.store(t);
  }
  CHECK(table.slots() == 3);
  CHECK(table.stored_count() == 3);
  const auto slot = table.slot(1);
  table.advance(1, 2);
  CHECK(!table.stored(1));
  CHECK(table.frontier(1) == 2);
  CHECK(table.stored_count() == 2);
  table.store(1);
  CHECK(table.slot(1) == slot);
  CHECK(table.slots() == 3);
}

TEST_CASE("a lost token frees its slot and stays lost") {
  frontier_table table;
  table.append(2);
  table.advance(0, 1);
  table.store(0);
  table.lose(0);
  CHECK(table.lost(0));
  CHECK(!table.lost(1));
  CHECK(!table.stored(0));
  CHECK(table.lost_count() == 1);
  CHECK(table.stored_count() == 0);
  table.append(1);
  CHECK(table.lost(0));
  table.clear();
  CHECK(table.known() == 0);
  CHECK(table.lost_count() == 0);
  CHECK(table.slots() == 0);
}

TEST_CASE("tokens that are dropped for good are counted, also after the end of the sequence is forgotten") {
  frontier_table table;
  table.append(3);
  table.drop_for_good(1);
  table.drop_for_good(1);
  table.drop_for_good(2);
  CHECK(table.gone_count() == 2);
  table.append(table.state(2));
  CHECK(table.gone_count() == 3);
  table.truncate(2);
  CHECK(table.gone_count() == 1);
  table.clear();
  CHECK(table.gone_count() == 0);
}

TEST_CASE("slot_after tells the slots of rows that are stored next") {
  frontier_table table;
  table.append(60);
  for (position t = 0; t < 30; ++t) {
    table.advance(t, 1);
    table.store(t);
  }
  for (const position t : {3u, 20u, 7u, 11u}) table.advance(t, 2);
  std::vector<std::uint32_t> told, taken;
  for (std::size_t i = 0; i < 9; ++i) told.push_back(table.slot_after(i));
  for (position t = 40; t < 49; ++t) {
    table.store(t);
    taken.push_back(table.slot(t));
  }
  CHECK(told == taken);
}

TEST_CASE("no two tokens share a slot, and slots() is the most slots in use at one time") {
  std::mt19937 random(1);
  frontier_table table;
  table.append(50);
  std::size_t most = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto t = static_cast<position>(random() % 50);
    if (table.stored(t))
      table.advance(t, table.frontier(t) + 1);
    else
      table.store(t);
    std::set<std::uint32_t> used;
    std::size_t stored = 0;
    for (position u = 0; u < 50; ++u) {
      if (!table.stored(u)) continue;
      used.insert(table.slot(u));
      ++stored;
    }
    most = std::max(most, stored);
    REQUIRE(used.size() == stored);
    REQUIRE(table.stored_count() == stored);
    REQUIRE(table.slots() == most);
    REQUIRE((used.empty() || *used.rbegin() < table.slots()));
  }
}

TEST_CASE("a refused waiting row keeps its slot until free_refused") {
  frontier_table table;
  table.append(3);
  for (const position t : {0u, 1u, 2u}) {
    table.advance(t, 1);
    table.wait(t);
  }
  const auto slot = table.slot(1);
  table.refuse_waiting(1);
  CHECK(table.lost(1));
  CHECK(table.waiting_count() == 3);
  table.take_back_refusals();
  CHECK(!table.lost(1));
  CHECK(table.waiting(1));
  CHECK(table.slot(1) == slot);

  table.refuse_waiting(1);
  table.refuse_waiting(2);
  table.truncate(2);
  table.free_refused();
  CHECK(table.lost_count() == 1);
  CHECK(table.waiting_count() == 1);
  CHECK(!table.waiting(1));
}

TEST_CASE("clear forgets the tokens and all slots") {
  frontier_table table;
  table.append(3);
  for (const position t : {0u, 1u}) table.advance(t, 1);
  table.store(0);
  table.wait(1);
  table.clear();
  CHECK(table.known() == 0);
  CHECK(table.slots() == 0);
  CHECK(table.waiting_slots() == 0);
}
