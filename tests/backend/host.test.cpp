// SPDX-License-Identifier: MIT
#include <lazyprune/backend/host.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("an array begins on a cache line, and refuses a size that no memory has") {
  for (const std::size_t size : {1u, 3u, 1000u}) {
    const aligned_array<float> array(size);
    CHECK(array.size() == size);
    CHECK(array.bytes() == 4 * size);
    CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 64 == 0);
  }
  CHECK(aligned_array<float>(0).bytes() == 0);
  CHECK_THROWS_AS(aligned_array<double>(SIZE_MAX / 4), std::bad_array_new_length);
}

TEST_CASE_TEMPLATE("a buffer grows and keeps what is in it", T, float, double) {
  row_buffer<T> buffer(7);
  CHECK(buffer.view().rows == 0);
  CHECK(buffer.bytes() == 0);
  T next = 0;
  std::size_t filled = 0;
  for (const std::size_t rows : {1u, 2u, 3u, 2u, 40u, 41u, 1000u}) {
    buffer.reserve(rows);
    const rows_view<T> view = buffer.view();
    CHECK(view.rows >= rows);
    CHECK(view.columns == 7);
    CHECK(reinterpret_cast<std::uintptr_t>(view.data) % 64 == 0);
    for (; filled < view.rows; ++filled)
      for (std::size_t i = 0; i < 7; ++i) view.row(filled)[i] = next++;
    T expected = 0;
    bool kept = true;
    for (std::size_t r = 0; r < view.rows; ++r)
      for (std::size_t i = 0; i < 7; ++i) kept = kept && view.row(r)[i] == expected++;
    CHECK(kept);
  }
  CHECK(buffer.view().rows == 1000);
  CHECK(buffer.bytes() >= 1000 * 7 * sizeof(T));
  CHECK(buffer.bytes() <= 1500 * 7 * sizeof(T));
}

TEST_CASE("row after row, a buffer is copied seldom") {
  row_buffer<float> buffer(1);
  int copies = 0;
  std::size_t bytes = 0;
  for (std::size_t rows = 1; rows <= 10'000; ++rows) {
    buffer.reserve(rows);
    copies += buffer.bytes() != bytes;
    bytes = buffer.bytes();
  }
  CHECK(copies < 30);  // log(10000) / log(1.5) = 23, and a few at the start, where half a row is none
}

TEST_CASE("an array that is shared is copied by who writes first, and no more once it is alone") {
  shared_array<float> one(3);
  std::iota(one.own(), one.own() + 3, 1.0f);
  const float* const first = one.data();
  {
    const shared_array<float> other = one;
    CHECK(other.data() == first);
    one.own()[1] = 9;
    CHECK(one.data() != first);
    CHECK(std::vector<float>(other.data(), other.data() + 3) == std::vector<float>{1, 2, 3});
    CHECK(std::vector<float>(one.data(), one.data() + 3) == std::vector<float>{1, 9, 3});
  }
  const float* const second = one.data();
  one.own()[0] = 7;
  CHECK(one.data() == second);
  CHECK(shared_array<float>().bytes() == 0);
}

TEST_CASE("a cache grows by blocks and never moves what is there") {
  host_kv<float> kv(2, 3);
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

TEST_CASE("parameters: parts of any type, joined") {
  const std::vector<float> a{1, 2.5f}, b{-3};
  const stored first(a, 1, 2, dtype::f32), second(b, 1, 1, dtype::bf16);
  const tensor parts[] = {first, second};
  const host_parameters<double> p(parts);
  CHECK(p.size() == 3);
  CHECK(p.bytes() == 24);
  CHECK(std::vector<double>(p.data(), p.data() + 3) == std::vector<double>{1, 2.5, -3});
}

TEST_CASE("a rope table is computed in double, also for float") {
  const std::vector<double> frequencies{1.0, 0.1234567890123};
  const host_rope_table<float> table(frequencies, 1.5, 100'001);
  CHECK(table.half() == 2);
  CHECK(table.bytes() == 100'001u * 4 * sizeof(float));
  for (const position p : {0u, 1u, 99'999u, 100'000u})
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(table.cosines(p)[i] == static_cast<float>(1.5 * std::cos(p * frequencies[i])));
      CHECK(table.sines(p)[i] == static_cast<float>(1.5 * std::sin(p * frequencies[i])));
    }
}
