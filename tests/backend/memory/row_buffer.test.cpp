// SPDX-License-Identifier: MIT
#include <lazyprune/backend/memory/row_buffer.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace lazyprune;

TEST_CASE_TEMPLATE("a buffer grows and keeps its rows", T, float, double) {
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

TEST_CASE("a buffer that grows row by row is seldom copied") {
  row_buffer<float> buffer(1);
  int copies = 0;
  std::size_t bytes = 0;
  for (std::size_t rows = 1; rows <= 10'000; ++rows) {
    buffer.reserve(rows);
    copies += buffer.bytes() != bytes;
    bytes = buffer.bytes();
  }
  CHECK(copies < 30);  // log(10000) / log(1.5) = 23 copies, and a few more at the start, where halves are rounded down
}
