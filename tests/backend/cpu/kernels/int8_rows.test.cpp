// SPDX-License-Identifier: MIT
// int8_contract.hpp tests the layout through the kernels that pack it.
#include <lazyprune/backend/cpu/kernels/int8_rows.hpp>

#include <doctest/doctest.h>

#include <set>

using lazyprune::kernels::int8_block;

TEST_CASE("the parts of a packed block do not overlap, and fill it") {
  for (const std::size_t rows : {1u, 3u, 6u}) {
    const int8_block block{rows};
    std::set<std::size_t> bytes;
    std::size_t written = 0;
    const auto part = [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) bytes.insert(i);
      written += count;
    };
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t q = 0; q < block.quads; ++q) part(block.codes(q, r), 4);
      part(block.scale(r), 4);
      part(block.sums(r), 4);
    }
    CHECK(bytes.size() == written);
    CHECK(written == block.bytes());
    CHECK(*bytes.rbegin() == block.bytes() - 1);
  }
}
