// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/slot_blocks.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

using namespace lazyprune;
using ids = std::vector<std::uint32_t>;

namespace {

constexpr std::size_t block_bytes = slot_blocks<int>::block_slots * 3 * sizeof(int);

void write(slot_blocks<int>& rows, std::uint32_t slot, int value) {
  rows.reserve(ids{slot});
  for (std::size_t i = 0; i < 3; ++i) rows.row(slot)[i] = value + static_cast<int>(i);
}

}  // namespace

TEST_CASE("memory grows by blocks without moving rows, and a block is freed with its last slot") {
  slot_blocks<int> rows(3);
  CHECK(rows.bytes() == 0);
  write(rows, 63, 10);
  const int* const place = rows.row(63);
  write(rows, 640, 20);  // the blocks between have no memory
  CHECK(rows.size() == 2);
  CHECK(rows.bytes() == 2 * block_bytes);
  CHECK(std::as_const(rows).row(63) == place);
  CHECK(place[2] == 12);
  CHECK(rows.row(640)[0] == 20);
  rows.reserve(ids{63});  // it is in use already
  CHECK(rows.size() == 2);
  rows.release(ids{63});
  CHECK(rows.size() == 1);
  CHECK(rows.bytes() == block_bytes);
}

TEST_CASE("held memory is allocated before its slots are used, and stays when they are released") {
  slot_blocks<int> rows(3);
  rows.hold(65);
  CHECK(rows.bytes() == 2 * block_bytes);
  write(rows, 0, 1);
  write(rows, 64, 2);
  CHECK(rows.bytes() == 2 * block_bytes);
  write(rows, 128, 3);
  CHECK(rows.bytes() == 3 * block_bytes);
  rows.release(ids{0, 64, 128});
  CHECK(rows.size() == 0);
  CHECK(rows.bytes() == 2 * block_bytes);
}

TEST_CASE("a copy shares rows until one of the two reserves them for writing") {
  slot_blocks<int> rows(3);
  write(rows, 5, 50);
  const slot_blocks<int> copy = rows;
  CHECK(copy.row(5) == rows.row(5));
  write(rows, 5, 60);
  CHECK(copy.row(5)[0] == 50);
  CHECK(rows.row(5)[0] == 60);
}

TEST_CASE("retain frees all slots except those that it is told to keep") {
  slot_blocks<int> rows(3);
  for (const std::uint32_t slot : {1u, 2u, 70u, 130u}) write(rows, slot, static_cast<int>(slot));
  rows.retain([](const auto& keep) {
    keep(2);
    keep(130);
  });
  CHECK(rows.size() == 2);
  CHECK(rows.bytes() == 2 * block_bytes);
  CHECK(rows.row(2)[0] == 2);
  CHECK(rows.row(130)[0] == 130);
  rows.reserve(ids{1});
  CHECK(rows.size() == 3);
}
