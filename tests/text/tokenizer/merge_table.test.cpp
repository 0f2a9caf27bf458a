// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/merge_table.hpp>

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <utility>

using lazyprune::merge_table;
using lazyprune::token_id;

TEST_CASE("the table finds only the merges that were set") {
  merge_table table;
  CHECK(table.find(1, 2) == nullptr);
  std::map<std::pair<token_id, token_id>, std::uint32_t> expected;
  std::mt19937 random(5);
  for (std::uint32_t rank = 0; rank < 20'000; ++rank) {
    const auto left = static_cast<token_id>(random() % 300), right = static_cast<token_id>(random() % 300);
    table.set(left, right, {rank, left + right});
    expected[{left, right}] = rank;
  }
  for (token_id left = 0; left < 300; ++left)
    for (token_id right = 0; right < 300; ++right) {
      const auto* const found = table.find(left, right);
      const auto known = expected.find({left, right});
      REQUIRE((found != nullptr) == (known != expected.end()));
      if (!found) continue;
      REQUIRE(found->rank == known->second);
      REQUIRE(found->whole == left + right);
    }
}
