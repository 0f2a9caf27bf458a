// SPDX-License-Identifier: MIT
#include <lazyprune/backend/large_array.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using lazyprune::large_array;

TEST_CASE("arrays of any size are aligned, and do not share memory with others") {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{64}, std::size_t{1} << 18, (std::size_t{3} << 20) + 1, std::size_t{5} << 20}) {
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

TEST_CASE("arrays in one block do not overlap, and keep their contents when others are freed") {
  constexpr std::size_t bytes = (std::size_t{1} << 20) + 3;
  std::vector<large_array> all;
  for (std::size_t i = 0; i < 40; ++i) {
    all.emplace_back(bytes);
    std::memset(all.back().data(), static_cast<int>(i), bytes);
    if (i % 3 == 2) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i) / 3);
  }
  const std::vector<large_array> kept = std::move(all);
  std::vector<const std::byte*> begins;
  for (const large_array& array : kept) {
    const std::byte first = array.data()[0];
    CHECK(std::all_of(array.data(), array.data() + bytes, [&](std::byte b) { return b == first; }));
    begins.push_back(array.data());
  }
  std::ranges::sort(begins);
  for (std::size_t i = 1; i < begins.size(); ++i) CHECK(begins[i] >= begins[i - 1] + bytes);
}

TEST_CASE("copies share the memory, and the last one frees it") {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 20, std::size_t{5} << 20}) {
    large_array copy;
    {
      large_array first(bytes);
      copy = first;
      CHECK(copy.data() == first.data());
      CHECK(copy.bytes() == bytes);
      first.data()[bytes - 1] = std::byte{7};
    }
    CHECK(copy.data()[bytes - 1] == std::byte{7});
  }
}
