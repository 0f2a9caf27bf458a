// SPDX-License-Identifier: MIT
#include <lazyprune/backend/host/host_kv_cache.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace lazyprune;

TEST_CASE("a cache grows by blocks and never moves its slots") {
  host_kv_cache<float> kv(2, 3);
  CHECK(kv.width() == 6);
  CHECK(kv.bytes() == 0);
  std::vector<const float*> places;
  const auto note = [&] {
    for (std::size_t slot = places.size() / 2; slot < kv.size(); ++slot) places.insert(places.end(), {kv.key(slot), kv.value(slot)});
  };
  const std::vector<float> row(6, 1.5f);
  const auto grow = [&](std::size_t count) {
    for (std::size_t end = kv.size() + count; kv.size() < end;) kv.put(kv.size(), row.data(), row.data());
  };
  for (const std::size_t count : {1u, 255u, 0u, 1u, 700u}) {
    grow(count);
    note();
  }
  CHECK(kv.size() == 957);
  CHECK(kv.bytes() == 4 * 2 * 256 * 6 * sizeof(float));
  bool moved = false, together = true;
  for (std::size_t slot = 0; slot < kv.size(); ++slot) {
    moved = moved || kv.key(slot) != places[2 * slot] || kv.value(slot) != places[2 * slot + 1];
    if (slot % 256) together = together && kv.key(slot) == kv.key(slot - 1) + 6 && kv.value(slot) == kv.value(slot - 1) + 6;
  }
  CHECK(!moved);
  CHECK(together);
  std::ranges::sort(places);
  bool apart = true;
  for (std::size_t i = 1; i < places.size(); ++i) apart = apart && (places[i] >= places[i - 1] + 6 || places[i] < places[i - 1]);
  CHECK(apart);

  const std::size_t bytes = kv.bytes();
  kv.truncate(0);
  CHECK(kv.size() == 0);
  grow(900);
  CHECK(kv.bytes() == bytes);
}
