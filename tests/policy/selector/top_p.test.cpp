// SPDX-License-Identifier: MIT
#include <lazyprune/policy/selector/top_p.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct top_p_values {
  static std::vector<top_p> all() { return {top_p{1e-9}, top_p{0.3}, top_p{0.9}, top_p{1.0}}; }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, top_p_values);

std::vector<std::uint32_t> select(double mass, std::vector<float> scores, std::size_t keep, float required_mass = 0) {
  std::vector<std::uint32_t> kept(scores.size());
  kept.resize(top_p{mass}.select(candidates{scores, {}, keep, required_mass}, kept));
  return kept;
}

using indices = std::vector<std::uint32_t>;

/// Follows the definition of top_p: takes the required tokens, then one token after another, the best first, until they hold the mass or
/// are `keep` tokens.
indices one_by_one(double mass, const std::vector<float>& scores, std::size_t keep, double required_mass) {
  double total = required_mass;
  for (const float s : scores)
    if (s > 0 && s < inf) total += s;
  std::vector<float> falling = scores;
  std::sort(falling.begin(), falling.end(), std::greater{});
  double held = required_mass;
  std::size_t count = 0;
  for (const float s : falling) {
    if (s < inf && (held >= mass * total * (1 - 1e-9) || count >= keep)) break;
    if (s < inf) held += std::max(s, 0.0f);
    ++count;
  }
  return best_by_sorting(scores, count);
}

TEST_CASE("top_p keeps the fewest tokens that hold the mass") {
  CHECK(select(0.5, {0.1f, 0.4f, 0.2f, 0.3f}, 4) == indices{1, 3});
  CHECK(select(0.7, {0.1f, 0.4f, 0.2f, 0.3f}, 4) == indices{1, 3});  // 0.4f + 0.3f counts as 0.7 of 1 in spite of rounding
  CHECK(select(0.71, {0.1f, 0.4f, 0.2f, 0.3f}, 4) == indices{1, 2, 3});
  CHECK(select(1.0, {0.1f, 0.4f, 0.2f, 0.3f}, 4) == indices{0, 1, 2, 3});
  CHECK(select(1.0, {0.5f, 0.0f, 0.5f, -1.0f}, 4) == indices{0, 2});
}

TEST_CASE("among equal scores, top_p keeps the later tokens, and only as many as needed") {
  CHECK(select(0.3, std::vector<float>(10, 0.1f), 10) == indices{7, 8, 9});
  CHECK(select(0.31, std::vector<float>(10, 0.1f), 10) == indices{6, 7, 8, 9});
}

TEST_CASE("at most `keep` tokens are kept, unless more are required") {
  CHECK(select(1.0, {0.1f, 0.4f, 0.2f, 0.3f}, 2) == indices{1, 3});
  CHECK(select(1.0, {inf, 0.4f, inf, inf}, 2) == indices{0, 2, 3});
}

TEST_CASE("required_mass counts towards the mass") {
  CHECK(select(0.5, {0.125f, 0.25f, 0.125f, inf}, 4, 0.5f) == indices{3});
  CHECK(select(0.6, {0.125f, 0.25f, 0.125f, inf}, 4, 0.5f) == indices{1, 3});
  CHECK(select(0.5, {0.125f, 0.25f, 0.125f, inf}, 4) == indices{1, 3});
}

TEST_CASE("if no score has mass, only the required tokens are kept") {
  CHECK(select(0.9, {0.0f, -1.0f, -inf, inf}, 4) == indices{3});
  CHECK(select(0.9, {-1.0f, -2.0f, inf}, 3, -5.0f) == indices{2});
  CHECK(select(0.9, {-1.0f, 2.0f, inf}, 3, std::numeric_limits<float>::quiet_NaN()) == indices{1, 2});
}

TEST_CASE("top_p handles scores of very different sizes, up to the limits of float") {
  constexpr float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  CHECK(select(0.75, {tiny, tiny, tiny, tiny}, 4) == indices{1, 2, 3});
  CHECK(select(1.0, {tiny, huge, 1.0f}, 3) == indices{1});  // the other tokens hold less than 1e-9 of the mass
  CHECK(select(0.6, {huge, huge, huge}, 3) == indices{1, 2});
}

TEST_CASE("rounding errors never add a token, or ask for more tokens than exist") {
  CHECK(select(0.1, std::vector<float>(30, 1.0f), 30).size() == 3);  // 0.1 * 30 is 3.0000000000000004 in double

  // The nine largest scores, summed in the order below, are exactly the mass asked for. Their sum in another order may be less in its last
  // bit, and top_p then keeps a tenth token.
  std::mt19937 random(2);
  std::uniform_real_distribution<float> middle(0x1p-7f, 0x1p-5f), low(0x1p-9f, 0x1p-7f);
  for (int run = 0; run < 2'000; ++run) {
    std::vector<float> scores{0x1.000002p24f};
    double target = 0.0, total = 0.0;
    for (int i = 0; i < 8; ++i) target += scores.emplace_back(middle(random));
    target += scores.front();
    for (int i = 0; i < 100; ++i) scores.push_back(low(random));
    for (const float s : scores) total += s;
    double mass = target / (total * (1.0 - 1e-9));
    while (mass * total * (1.0 - 1e-9) < target) mass = std::nextafter(mass, 1.0);
    const std::size_t count = select(mass, scores, scores.size()).size();
    REQUIRE((count == 9 || count == 10));
  }
}

TEST_CASE("top_p keeps the tokens that one_by_one takes") {
  std::mt19937 random(3);
  for (int run = 0; run < 20'000; ++run) {
    CAPTURE(run);
    const std::vector<float> scores = some_scores(run % 100 == 0 ? 1 + random() % 2000 : 1 + random() % 40, random);
    const std::size_t keep = 1 + random() % scores.size();
    const double mass = static_cast<double>(1 + random() % 100) / 100.0;
    const auto required_mass = static_cast<float>(random() % 3);
    REQUIRE(select(mass, scores, keep, required_mass) == one_by_one(mass, scores, keep, required_mass));
  }
}

}  // namespace
