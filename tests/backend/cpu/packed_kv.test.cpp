// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/packed_kv.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/cpu/kernels/portable/product.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <backend/kv_samples.hpp>
#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Puts the rows into the next slots.
void append(packed_kv& kv, rows_view<const float> k, rows_view<const float> v, dtype as, int threads) {
  std::vector<std::uint32_t> slots(k.rows);
  std::iota(slots.begin(), slots.end(), static_cast<std::uint32_t>(kv.size()));
  kv.put(slots, k, v, as, threads);
}

}  // namespace

TEST_CASE("keys and values are read as the type keeps them, and lie in the layout of tiles") {
  for (const dtype type : every_kv_type)
    for (const std::size_t d : {1u, 16u, 33u, 64u}) {
      CAPTURE(d);
      packed_kv kv(2, d);
      const std::size_t rows = 300;
      const auto k = normal_floats(rows * 2 * d, 1), v = normal_floats(rows * 2 * d, 2);
      const guarded<float> keys(rows, 2 * d, k), values(rows, 2 * d, v);
      append(kv, keys.view().slice(0, 7), values.view().slice(0, 7), type, 1);
      append(kv, keys.view().slice(7, rows - 7), values.view().slice(7, rows - 7), dtype::f32, 2);  // the cache keeps its type
      REQUIRE(kv.size() == rows);
      REQUIRE(kv.type() == type);
      const auto kept_k = kept_as(type, k, d), kept_v = kept_as(type, v, d);
      // Tiles of f16 and q8_0 are compared after they are unpacked to f32.
      const dtype tiles = type == dtype::bf16 ? type : dtype::f32;
      std::vector<std::byte> unpacked_key(kernels::tile_offset(tiles, kv.key_depth(), 0)),
          unpacked_value(kernels::tile_offset(tiles, 32, 0));
      const auto number = [&](const std::byte* tile, std::size_t input, std::size_t output) {
        float x;
        widen(tensor{tiles, 1, 1, tile + kernels::tile_offset(tiles, input, output)}, 0, 1, &x);
        return x;
      };
      bool right = true;
      for (std::size_t slot = 0; slot < rows; ++slot)
        for (std::size_t head = 0; head < 2; ++head) {
          const std::byte *key = kv.key_tile(slot / 256, head, slot % 256 / 32), *value = nullptr;
          if (kv.needs_unpacking()) kv.unpack_keys(kernels::portable::f32, key, unpacked_key.data()), key = unpacked_key.data();
          for (std::size_t i = 0; i < d; ++i) {
            if (i % 32 == 0) {
              value = kv.value_tile(slot / 256, head, i / 32, slot % 256 / 32 * 32);
              if (kv.needs_unpacking())
                kv.unpack_values(kernels::portable::f32, value, 32, unpacked_value.data()), value = unpacked_value.data();
            }
            const std::size_t at = slot * 2 * d + head * d + i;
            right = right && kv.key(slot, head, i) == kept_k[at] && kv.value(slot, head, i) == kept_v[at];
            right = right && number(key, i, slot % 32) == kept_k[at] && number(value, slot % 32, i % 32) == kept_v[at];
          }
        }
      CHECK(right);
    }
}

TEST_CASE("a number takes 4 bytes in f32, 2 in bf16 and f16, and 1 in q8_0, which has 2 more for each 32 numbers") {
  CHECK(packed_kv::slot_bytes(4, 64, dtype::f32) == 2 * 256 * 4);
  CHECK(packed_kv::slot_bytes(4, 64, dtype::bf16) == 2 * 256 * 2);
  CHECK(packed_kv::slot_bytes(4, 64, dtype::f16) == 2 * 256 * 2);
  CHECK(packed_kv::slot_bytes(4, 64, dtype::q8_0) == 2 * 256 / 32 * 34);
}

TEST_CASE("memory grows by whole blocks, and truncate keeps it") {
  packed_kv f32(4, 64), bf16(4, 64);
  const guarded<float> rows(257, 256, normal_floats(257 * 256, 1));
  CHECK(f32.bytes() == 0);
  append(f32, rows.view().slice(0, 1), rows.view().slice(0, 1), dtype::f32, 1);
  CHECK(f32.bytes() == 256 * 2 * 256 * 4);
  append(f32, rows.view().slice(0, 255), rows.view().slice(0, 255), dtype::f32, 1);
  CHECK(f32.bytes() == 256 * 2 * 256 * 4);
  append(f32, rows.view(), rows.view(), dtype::f32, 1);
  CHECK(f32.bytes() == 3 * 256 * 2 * 256 * 4);
  append(bf16, rows.view(), rows.view(), dtype::bf16, 1);
  CHECK(bf16.bytes() == 2 * 256 * 2 * 256 * 2);

  f32.truncate(0);
  CHECK(f32.size() == 0);
  CHECK(f32.bytes() == 3 * 256 * 2 * 256 * 4);
  append(f32, rows.view().slice(5, 1), rows.view().slice(6, 1), dtype::bf16, 1);  // an empty cache may change its type
  CHECK(f32.type() == dtype::bf16);
  CHECK(f32.bytes() == 256 * 2 * 256 * 2);
  CHECK(f32.key(0, 1, 3) == float_of_bf16(bf16_of_float(rows(5, 64 + 3))));
  CHECK(f32.value(0, 1, 3) == float_of_bf16(bf16_of_float(rows(6, 64 + 3))));
}

TEST_CASE("unused slots have no numbers of an earlier sequence") {
  packed_kv kv(1, 16);
  const guarded<float> bad(300, 16, std::vector<float>(300 * 16, std::numeric_limits<float>::quiet_NaN())),
      good(5, 16, normal_floats(80, 1));
  append(kv, bad.view(), bad.view(), dtype::f32, 1);
  kv.truncate(0);
  append(kv, good.view(), good.view(), dtype::f32, 1);
  for (std::size_t slot = 5; slot < packed_kv::block_slots; ++slot) CHECK(kv.value(slot, 0, 3) == 0);
}

TEST_CASE("slots with gaps get the keys and values of their rows, in every type") {
  for (const dtype type : every_kv_type) {
    packed_kv kv(2, 33);
    const std::vector<std::uint32_t> slots{2, 3, 6, 9, 10, 11, 12, 254, 255, 256};
    const guarded<float> keys(slots.size(), 66, normal_floats(slots.size() * 66, 1)),
        values(slots.size(), 66, normal_floats(slots.size() * 66, 2));
    kv.put(slots, keys.view(), values.view(), type, 1);
    const auto kept_k = kept_as(type, normal_floats(slots.size() * 66, 1), 33),
               kept_v = kept_as(type, normal_floats(slots.size() * 66, 2), 33);
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < slots.size(); ++r)
      for (std::size_t i = 0; i < 66; ++i)
        wrong += kv.key(slots[r], i / 33, i % 33) != kept_k[66 * r + i] || kv.value(slots[r], i / 33, i % 33) != kept_v[66 * r + i];
    for (const std::size_t slot : {0u, 1u, 4u, 5u, 7u, 8u, 13u, 253u, 257u}) wrong += slot < kv.size() && kv.value(slot, 1, 3) != 0;
    CHECK(wrong == 0);
  }
}

TEST_CASE("slots forgotten by truncate are zeroed before reuse, even if they hold NaN; a copy of the cache keeps its numbers") {
  for (const dtype type : every_kv_type) {
    packed_kv kv(2, 16);
    const guarded<float> bad(300, 32, std::vector<float>(300 * 32, std::numeric_limits<float>::quiet_NaN())),
        good(4, 32, normal_floats(128, 1));
    append(kv, good.view().slice(0, 3), good.view().slice(0, 3), type, 1);
    append(kv, bad.view(), bad.view(), type, 1);
    const packed_kv copy = kv;
    kv.truncate(3);
    append(kv, good.view().slice(3, 1), good.view().slice(3, 1), type, 1);
    for (std::size_t slot = 4; slot < packed_kv::block_slots; ++slot) REQUIRE(kv.value(slot, 1, 3) == 0);
    CHECK(kv.value(2, 1, 3) == copy.value(2, 1, 3));
    CHECK(std::isnan(copy.value(9, 1, 3)));
    append(kv, bad.view(), bad.view(), type, 1);
    CHECK(std::isnan(kv.value(250, 0, 0)));
  }
}

TEST_CASE("copies of slots have their bits, and the last slot fills its tile") {
  for (const dtype type : every_kv_type)
    for (const std::size_t d : {16u, 33u, 64u}) {
      CAPTURE(std::string(name_of(type)));
      CAPTURE(d);
      packed_kv kv(2, d), copy(2, d);
      const std::size_t rows = 600;
      const guarded<float> keys(rows, 2 * d, normal_floats(rows * 2 * d, 1)), values(rows, 2 * d, normal_floats(rows * 2 * d, 2));
      append(kv, keys.view(), values.view(), type, 1);
      std::vector<std::uint32_t> slots(32);
      std::iota(slots.begin(), slots.end(), 64u);                                        // a whole tile
      for (std::uint32_t i = 0; i < 300; ++i) slots.push_back((211 * i + i / 3) % 600);  // any order
      for (std::uint32_t i = 0; i < 45; ++i) slots.push_back(101 + i);                   // a run that begins in a tile
      copy.copy(kv, std::vector<std::uint32_t>(400, 7), 1);                              // numbers that must not stay
      copy.copy(kv, slots, 2);
      CHECK(copy.type() == type);
      REQUIRE(copy.size() == slots.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < (slots.size() + 31) / 32 * 32; ++i)
        for (std::size_t n = 0; n < 2 * d; ++n) {
          const std::size_t from = slots[std::min(i, slots.size() - 1)];
          wrong += copy.key(i, n / d, n % d) != kv.key(from, n / d, n % d);
          wrong += copy.value(i, n / d, n % d) != kv.value(from, n / d, n % d);
        }
      CHECK(wrong == 0);
    }
}

TEST_CASE("finite numbers stay finite in every type, and are off by no more than half a code or the type's rounding") {
  for (const dtype type : every_kv_type) {
    CAPTURE(std::string(name_of(type)));
    packed_kv kv(1, 32);
    auto numbers = normal_floats(3 * 32, 1);
    numbers[5] = 3e38f, numbers[40] = -1e9f;
    const guarded<float> rows(3, 32, numbers);
    kv.put(std::vector<std::uint32_t>{0, 1, 2}, rows.view(), rows.view(), type, 1);
    for (std::size_t slot = 0; slot < 3; ++slot)
      for (std::size_t i = 0; i < 32; ++i) {
        CHECK(std::isfinite(kv.key(slot, 0, i)));
        CHECK(std::isfinite(kv.value(slot, 0, i)));
      }
    float most = 0;
    for (std::size_t i = 0; i < 32; ++i) most = std::max(most, std::abs(numbers[64 + i]));
    const float allowed = type == dtype::f32 ? 0 : type == dtype::f16 ? 0x1p-11f * most : type == dtype::bf16 ? 0x1p-8f * most : most / 250;
    for (std::size_t i = 0; i < 32; ++i) CHECK(std::abs(kv.key(2, 0, i) - numbers[64 + i]) <= allowed);
  }
}
