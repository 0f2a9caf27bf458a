// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/stored_activations.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("rows of any length are read as they were written, exact in f32 and rounded in bf16") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const std::size_t columns : {1u, 7u, 8u, 9u, 64u, 131u}) {
      CAPTURE(columns);
      const std::size_t rows = 150;
      const auto numbers = normal_floats(rows * columns, 1);
      stored_activations store(columns);
      for (std::size_t r = 0; r < rows; ++r) {
        const std::uint32_t slot[] = {static_cast<std::uint32_t>(r)};
        store.reserve(slot, r == 0 ? type : dtype::f32);  // the store keeps its type
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

TEST_CASE("memory comes in blocks, has the size of the type, and is freed with a block's last row") {
  using ids = std::vector<std::uint32_t>;
  stored_activations f32(128), bf16(128);
  CHECK(f32.bytes() == 0);
  f32.reserve(ids{0}, dtype::f32);
  CHECK(f32.bytes() == 64 * 128 * 4);
  f32.reserve(ids{63, 1}, dtype::f32);
  CHECK(f32.bytes() == 64 * 128 * 4);
  f32.reserve(ids{200}, dtype::f32);  // the blocks between have no memory
  CHECK(f32.bytes() == 2 * 64 * 128 * 4);
  bf16.reserve(ids{64, 0}, dtype::bf16);
  CHECK(bf16.bytes() == 2 * 64 * 128 * 2);

  f32.release(ids{1, 0});
  CHECK(f32.bytes() == 2 * 64 * 128 * 4);
  f32.release(ids{63});
  CHECK(f32.bytes() == 64 * 128 * 4);
  f32.reserve(ids{63}, dtype::bf16);
  CHECK(f32.type() == dtype::f32);
  f32.release(ids{63, 200});
  CHECK(f32.bytes() == 0);
  f32.reserve(ids{5}, dtype::bf16);  // an empty store may change its type
  CHECK(f32.bytes() == 64 * 128 * 2);
  std::vector<float> row(128, 1.5f), out(128);
  f32.write(5, row.data());
  f32.read(5, out.data());
  CHECK(out == row);
}
