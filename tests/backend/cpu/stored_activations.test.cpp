// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/stored_activations.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("rows come back as they were written, in bf16 rounded, at every length") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const std::size_t columns : {1u, 7u, 8u, 9u, 64u, 131u}) {
      CAPTURE(columns);
      const std::size_t rows = 150;
      const auto numbers = normal_floats(rows * columns, 1);
      stored_activations store(columns);
      store.reserve(1, type);
      for (std::size_t r = 0; r < rows; ++r) {
        store.reserve(r + 1, dtype::f32);  // it keeps its type
        store.write(r, numbers.data() + r * columns);
      }
      REQUIRE(store.type() == type);
      bool right = true;
      guarded<float> row(1, columns);
      for (std::size_t r = 0; r < rows; ++r) {
        store.read(r, row.view().row(0));
        for (std::size_t i = 0; i < columns; ++i) {
          const float x = numbers[r * columns + i];
          right = right && row(0, i) == (type == dtype::f32 ? x : float_of_bf16(bf16_of_float(x)));
        }
      }
      CHECK(right);
      CHECK(row.untouched());
    }
}

TEST_CASE("memory grows in blocks, by the type's size") {
  stored_activations f32(128), bf16(128);
  CHECK(f32.bytes() == 0);
  f32.reserve(1, dtype::f32);
  CHECK(f32.bytes() == 64 * 128 * 4);
  f32.reserve(64, dtype::f32);
  CHECK(f32.bytes() == 64 * 128 * 4);
  f32.reserve(65, dtype::f32);
  CHECK(f32.bytes() == 2 * 64 * 128 * 4);
  bf16.reserve(65, dtype::bf16);
  CHECK(bf16.bytes() == 2 * 64 * 128 * 2);
}
