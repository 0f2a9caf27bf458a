// SPDX-License-Identifier: MIT
#include <lazyprune/policy/selector/threshold.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct threshold_values {
  static std::vector<threshold> all() { return {threshold{-inf}, threshold{0.0f}, threshold{0.5f}, threshold{inf}}; }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, threshold_values);

using indices = std::vector<std::uint32_t>;

indices select(float score, std::vector<float> scores, std::size_t keep) {
  indices kept(scores.size());
  kept.resize(threshold{score}.select(candidates{.scores = scores, .positions = {}, .keep = keep}, kept));
  return kept;
}

TEST_CASE("threshold keeps all tokens that reach the score, but at most `keep` tokens") {
  CHECK(select(0.5f, {0.5f, 0.4f, 0.6f, inf}, 4) == indices{0, 2, 3});
  CHECK(select(0.5f, {0.5f, 0.4f, 0.6f, inf}, 2) == indices{2, 3});
  CHECK(select(0.5f, {0.5f, 0.5f, 0.5f, inf}, 2) == indices{2, 3});
  CHECK(select(0.5f, {inf, 0.9f, inf, inf}, 2) == indices{0, 2, 3});
  CHECK(select(2.0f, {0.5f, 0.4f, 0.6f, inf}, 4) == indices{3});
}

TEST_CASE("of the `keep` best tokens, threshold keeps those that reach the score") {
  std::mt19937 random(5);
  for (int run = 0; run < 5'000; ++run) {
    CAPTURE(run);
    const std::vector<float> scores = some_scores(1 + random() % 40, random);
    const std::size_t keep = 1 + random() % scores.size();
    const float least = scores[random() % scores.size()];  // a threshold that one score meets exactly
    indices expected;
    for (const std::uint32_t i : best_by_sorting(scores, keep))
      if (scores[i] >= least) expected.push_back(i);
    REQUIRE(select(least, scores, keep) == expected);
  }
}

}  // namespace
