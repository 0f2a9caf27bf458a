// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/adaptive.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct adaptive_values {
  static std::vector<adaptive> all() {
    return {adaptive{}, adaptive{.from = 0, .every = 3, .mass = 1.0, .least = 1e-9}, adaptive{.mass = 1e-9, .least = 1.0}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, adaptive_values);

std::size_t keep(const adaptive& when, const std::vector<float>& scores) {
  return when.keep({when.from, 32, scores.size(), 2 * scores.size(), phase::prefill}, scores);
}

TEST_CASE("adaptive prunes after `from` layers, and again after every `every` layers") {
  const std::vector<float> scores(10, 1.0f);
  std::vector<layer_id> pruned;
  for (layer_id done = 0; done < 20; ++done)
    if (adaptive{.from = 3, .every = 5}.keep({done, 20, 10, 10, phase::prefill}, scores) != everything) pruned.push_back(done);
  CHECK(pruned == std::vector<layer_id>{3, 8, 13, 18});
}

TEST_CASE("adaptive keeps the fewest tokens that hold the mass, but at least the share `least`") {
  CHECK(keep({.mass = 0.5, .least = 1e-9}, {0.1f, 0.4f, 0.2f, 0.3f}) == 2);
  CHECK(keep({.mass = 0.5, .least = 0.7}, {0.1f, 0.4f, 0.2f, 0.3f}) == 3);
  CHECK(keep({.mass = 1.0, .least = 1e-9}, {0.5f, 0.0f, 0.5f, 0.0f}) == 2);
}

TEST_CASE("NaN, negative and infinite scores have no mass") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(keep({.mass = 1.0, .least = 1e-9}, {nan, -3.0f, 1.0f, -inf}) == 1);
  CHECK(keep({.mass = 0.5, .least = 1e-9}, {0.25f, 0.5f, 0.25f, inf}) == 2);  // keeps the infinite score and 0.5
  CHECK(keep({.mass = 1.0, .least = 1e-9}, {-1.0f, -2.0f, 0.0f}) == 1);
  CHECK(keep({.mass = 1.0, .least = 1e-9}, {nan}) == 1);
}

TEST_CASE("adaptive keeps as many tokens as a loop that takes the highest scores one after another") {
  std::mt19937 random(19);
  for (int run = 0; run < 5'000; ++run) {
    CAPTURE(run);
    const std::vector<float> scores = some_scores(1 + random() % 200, random);
    const double mass = static_cast<double>(1 + random() % 100) / 100, least = static_cast<double>(1 + random() % 100) / 100;
    std::vector<float> falling = scores;
    std::sort(falling.begin(), falling.end(), std::greater{});
    double total = 0.0, held = 0.0;
    for (const float s : scores) total += s > 0 && s < inf ? s : 0.0f;
    std::size_t fewest = 0;
    for (const float s : falling) {
      if (s < inf && held >= mass * total * (1 - 1e-9)) break;
      if (s < inf) held += s;
      ++fewest;
    }
    const std::size_t share = share_of(least, scores.size());
    REQUIRE(keep({.mass = mass, .least = least}, scores) == std::max(fewest, share));
  }
}

}  // namespace
