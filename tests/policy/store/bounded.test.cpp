// SPDX-License-Identifier: MIT
#include <lazyprune/policy/store/bounded.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct bounded_values {
  static std::vector<bounded> all() { return {bounded{0}, bounded{1}, bounded{10}, bounded{1'000'000}}; }
};
TEST_CASE_TEMPLATE_INVOKE(store_contract, bounded_values);

using indices = std::vector<std::uint32_t>;

indices admit(std::size_t rows, const std::vector<float>& scores, bool embeddings = false) {
  std::vector<position> positions(scores.size());
  std::iota(positions.begin(), positions.end(), 0u);
  indices kept(scores.size());
  kept.resize(bounded{rows}.admit(stored_rows{scores, positions, embeddings}, kept));
  return kept;
}

TEST_CASE("bounded refuses the lowest scores, and the earlier positions among equal scores") {
  CHECK(admit(2, {0.3f, 0.1f, 0.2f}) == indices{0, 2});
  CHECK(admit(2, {0.1f, 0.1f, 0.1f}) == indices{1, 2});
  CHECK(admit(0, {0.3f, 0.1f}) == indices{});
}

TEST_CASE("rows that are about to be read stay, even beyond the bound") {
  CHECK(admit(1, {inf, 0.9f, inf, 0.1f}) == indices{0, 2});
  CHECK(admit(0, {inf, 0.9f}) == indices{0});
  CHECK(admit(3, {inf, 0.9f, inf, 0.1f}) == indices{0, 1, 2});
}

TEST_CASE("bounded admits all embeddings") { CHECK(admit(1, {0.3f, -inf, 0.2f}, true) == indices{0, 1, 2}); }

TEST_CASE("bounded admits the rows that sorting finds") {
  std::mt19937 random(13);
  for (int run = 0; run < 5'000; ++run) {
    CAPTURE(run);
    const std::vector<float> scores = some_scores(1 + random() % 40, random);
    const std::size_t rows = random() % 45;
    REQUIRE(admit(rows, scores) == best_by_sorting(scores, rows));
  }
}

}  // namespace
