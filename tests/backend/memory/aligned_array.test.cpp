// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/aligned_array.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace lazyprune;

TEST_CASE("an array begins on a cache line, and an impossible size is refused") {
  for (const std::size_t size : {1u, 3u, 1000u}) {
    const aligned_array<float> array(size);
    CHECK(array.size() == size);
    CHECK(array.bytes() == 4 * size);
    CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 64 == 0);
  }
  CHECK(aligned_array<float>(0).bytes() == 0);
  CHECK_THROWS_AS(aligned_array<double>(SIZE_MAX / 4), std::bad_array_new_length);
}
