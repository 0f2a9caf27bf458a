// SPDX-License-Identifier: MIT
#include <lazyprune/policy/selector/top_k.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct top_k_values {
  static std::vector<top_k> all() { return {top_k{}}; }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, top_k_values);

std::vector<std::uint32_t> select(std::vector<float> scores, std::size_t keep) {
  std::vector<std::uint32_t> kept(scores.size());
  kept.resize(top_k{}.select(candidates{.scores = scores, .positions = {}, .keep = keep}, kept));
  return kept;
}

TEST_CASE("among equal scores the later positions stay") {
  CHECK(select({1, 1, 1, 1}, 2) == std::vector<std::uint32_t>{2, 3});
  CHECK(select({5, 1, 5, 1, 5}, 4) == std::vector<std::uint32_t>{0, 2, 3, 4});
  CHECK(select({0.0f, -0.0f, 0.0f}, 1) == std::vector<std::uint32_t>{2});
  CHECK(select({0.0f, -0.0f}, 1) == std::vector<std::uint32_t>{1});  // -0 and +0 are equal
}

TEST_CASE("all tokens are kept if keep asks for more than exist") { CHECK(select({3, 1, 2}, 9) == std::vector<std::uint32_t>{0, 1, 2}); }

TEST_CASE("if more tokens are required than keep asks for, only the required ones are kept") {
  CHECK(select({inf, 9, inf, 8, inf}, 2) == std::vector<std::uint32_t>{0, 2, 4});
  CHECK(select({inf, 9, inf, 8, inf}, 3) == std::vector<std::uint32_t>{0, 2, 4});
  CHECK(select({inf, 9, inf, 8, inf}, 4) == std::vector<std::uint32_t>{0, 1, 2, 4});
}

TEST_CASE("the smallest, the largest and infinite floats are ordered correctly") {
  constexpr float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  CHECK(select({0.0f, tiny, -tiny}, 1) == std::vector<std::uint32_t>{1});
  CHECK(select({-inf, -huge, -inf}, 1) == std::vector<std::uint32_t>{1});
  CHECK(select({huge, inf, huge}, 1) == std::vector<std::uint32_t>{1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(select({nan, -inf, -nan}, 1) == std::vector<std::uint32_t>{1});  // NaN of either sign is lowest
  CHECK(select({nan, 0.0f, -nan}, 2) == std::vector<std::uint32_t>{1, 2});
}

TEST_CASE("top_k keeps the tokens that sorting finds") {
  std::mt19937 random(1);
  for (int run = 0; run < 20'000; ++run) {
    CAPTURE(run);
    const std::vector<float> scores = some_scores(run % 100 == 0 ? 1 + random() % 2000 : 1 + random() % 40, random);
    const std::size_t keep = 1 + random() % scores.size();
    REQUIRE(select(scores, keep) == best_by_sorting(scores, keep));
  }
}

TEST_CASE("top_k handles orders that are hard to partition: sorted, reversed, all equal, sawtooth") {
  for (const std::size_t n : {1u, 2u, 255u, 256u, 257u, 4097u}) {
    CAPTURE(n);
    std::vector<float> rising(n), equal(n, 0.25f), saw(n);
    for (std::size_t i = 0; i < n; ++i) {
      rising[i] = static_cast<float>(i);
      saw[i] = static_cast<float>(i % 17);
    }
    const std::vector<float> falling(rising.rbegin(), rising.rend());
    for (const std::vector<float>& scores : {rising, falling, equal, saw})
      for (const std::size_t keep : {std::size_t{1}, (n + 1) / 2, n}) CHECK(select(scores, keep) == best_by_sorting(scores, keep));
  }
}

}  // namespace
