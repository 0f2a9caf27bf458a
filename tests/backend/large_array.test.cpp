// SPDX-License-Identifier: MIT
#include <lazyprune/backend/large_array.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

using lazyprune::large_array;

TEST_CASE("memory of any size, aligned, its own") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{5} << 20}) {
    large_array a(bytes), b(bytes);
    CHECK(a.bytes() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
    a.data()[0] = a.data()[bytes - 1] = std::byte{1};
    b.data()[0] = b.data()[bytes - 1] = std::byte{2};
    CHECK(a.data()[0] == std::byte{1});
    CHECK(a.data()[bytes - 1] == std::byte{1});
    const std::byte* where = a.data();
    const large_array moved = std::move(a);
    CHECK(moved.data() == where);
    CHECK(moved.bytes() == bytes);
  }
  CHECK(large_array().bytes() == 0);
  CHECK(large_array(0).data() == nullptr);
}
