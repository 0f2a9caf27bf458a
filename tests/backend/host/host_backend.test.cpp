// SPDX-License-Identifier: MIT
#include <lazyprune/backend/host/host_backend.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace lazyprune;
using ids = std::vector<std::uint32_t>;

TEST_CASE("copy_rows moves rows within one buffer, one after the other") {
  std::vector<double> numbers{0, 1, 10, 11, 20, 21, 30, 31};
  const rows_view<double> rows{numbers.data(), 4, 2, 2};
  host_backend<double>{}.copy_rows(rows, ids{1, 3, 2}, rows, ids{0, 1, 2});
  CHECK(numbers == std::vector<double>{10, 11, 30, 31, 20, 21, 30, 31});
}

TEST_CASE("stored rows are read back to other rows") {
  const host_backend<double> backend;
  std::vector<double> numbers{0, 1, 10, 11, 20, 21};
  const rows_view<double> rows{numbers.data(), 3, 2, 2};
  host_backend<double>::row_store store(2);
  backend.store_rows(rows, ids{2, 0}, store, ids{7, 100});
  backend.take_rows(store, ids{100, 7}, rows, ids{1, 0});
  CHECK(numbers == std::vector<double>{20, 21, 0, 1, 20, 21});
}
