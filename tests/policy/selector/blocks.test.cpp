// SPDX-License-Identifier: MIT
#include <lazyprune/policy/selector/blocks.hpp>

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct blocks_values {
  static std::vector<blocks> all() { return {blocks{}, blocks{1}, blocks{3}, blocks{1'000'000}, blocks{std::size_t{1} << 40}}; }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, blocks_values);

using indices = std::vector<std::uint32_t>;

indices select(std::size_t size, std::vector<float> scores, const std::vector<position>& positions, std::size_t keep) {
  indices kept(scores.size());
  kept.resize(blocks{size}.select(candidates{.scores = scores, .positions = positions, .keep = keep}, kept));
  return kept;
}

/// Follows the definition of blocks by sorting a table of pages.
indices by_pages(std::size_t size, const std::vector<float>& scores, const std::vector<position>& positions, std::size_t keep) {
  std::map<std::size_t, indices> members;
  std::map<std::size_t, float> best;
  for (std::uint32_t i = 0; i < scores.size(); ++i) {
    const std::size_t page = positions[i] / size;
    members[page].push_back(i);
    best.try_emplace(page, -inf);
    best[page] = std::max(best[page], scores[i]);
  }
  std::vector<std::pair<float, std::size_t>> order;
  for (const auto& [page, score] : best) order.emplace_back(score, page);
  std::sort(order.begin(), order.end(), std::greater{});  // by score; among pages with equal scores the later one comes first
  indices kept;
  for (const auto& [score, page] : order)
    if (kept.size() < keep || score == inf) kept.insert(kept.end(), members[page].begin(), members[page].end());
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST_CASE("blocks keeps whole pages, the best first, until there are enough tokens") {
  const std::vector<position> positions{0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(select(2, {9, 0, 1, 1, 8, 0, 0, inf}, positions, 3) == indices{0, 1, 6, 7});
  CHECK(select(2, {9, 0, 1, 1, 8, 0, 0, inf}, positions, 5) == indices{0, 1, 4, 5, 6, 7});
  CHECK(select(3, {9, 0, 1, 1, 8, 0, 0, inf}, positions, 3) == indices{0, 1, 2, 6, 7});  // the last page has two tokens only
}

TEST_CASE("blocks knows how many tokens it keeps if the pages that compete are equally large") {
  const auto told = [](std::size_t size, std::vector<float> scores, std::vector<position> positions) {
    return blocks{size}.count(candidates{.scores = scores, .positions = positions, .keep = 1});
  };
  CHECK(told(2, {0, 0, 0, 0, inf}, {0, 1, 2, 3, 4}) == kept_count{.required = 1, .group = 2, .page = 2});
  CHECK(told(2, {inf, 0, 0, 0, inf}, {0, 1, 4, 5, 8}) == kept_count{.required = 3, .group = 2, .page = 2});
  CHECK(told(2, {0, inf}, {0, 1}) == kept_count{.required = 2, .group = 1, .page = 2});
  CHECK_FALSE(told(2, {0, 0, 0, inf}, {0, 1, 2, 4}));  // one page has two candidates, another one has one
}

TEST_CASE("the count of kept tokens has enough of the pages that compete to hold the tokens that are to be kept") {
  const kept_count count{.required = 3, .group = 4, .page = 4};
  CHECK(count.of(1, 23) == 3);
  CHECK(count.of(3, 23) == 3);
  CHECK(count.of(4, 23) == 7);
  CHECK(count.of(7, 23) == 7);
  CHECK(count.of(8, 23) == 11);
  CHECK(count.of(23, 23) == 23);
}

TEST_CASE("pages are made of positions, not of candidate indices") {
  CHECK(select(4, {1, 5, 1, inf}, {3, 4, 7, 8}, 2) == indices{1, 2, 3});
  CHECK(select(4, {5, 1, 1, inf}, {3, 4, 7, 8}, 2) == indices{0, 3});
}

TEST_CASE("among pages with equal scores the later ones are kept, and no more pages than needed") {
  CHECK(select(2, {1, 1, 1, 1, 1, 1, inf, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, 3) == indices{4, 5, 6, 7});
  CHECK(select(4, {1, 1, 1, 1, 1, inf}, {0, 1, 2, 3, 4, 9}, 2) == indices{4, 5});
  CHECK(select(4, {1, 1, 1, 1, 1, inf}, {0, 1, 2, 3, 4, 9}, 3) == indices{0, 1, 2, 3, 4, 5});
}

TEST_CASE("blocks keeps the tokens that by_pages finds with a sorted table of pages") {
  std::mt19937 random(9);
  for (int run = 0; run < 20'000; ++run) {
    CAPTURE(run);
    const std::size_t n = run % 100 == 0 ? 1 + random() % 1000 : 1 + random() % 40;
    const std::vector<position> positions = some_positions(n, random);
    const std::vector<float> scores = some_scores(n, random);
    const std::size_t keep = 1 + random() % n, size = 1 + random() % 20;
    REQUIRE(select(size, scores, positions, keep) == by_pages(size, scores, positions, keep));
  }
}

}  // namespace
