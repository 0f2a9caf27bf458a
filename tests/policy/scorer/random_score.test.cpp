// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/random_score.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<random_score>);

struct random_values {
  static std::vector<random_score> all() { return {{}, {1}, {0xffff'ffff'ffff'ffffu}}; }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, random_values);

std::vector<float> score(std::uint64_t seed, const std::vector<position>& positions) {
  std::vector<float> out(positions.size());
  random_score{seed}.score({positions, 0, positions.back() + std::size_t{1}}, out);
  return out;
}

TEST_CASE("the scores are the top bits of SplitMix64's published outputs") {
  // The first outputs for seed 1234567, from Rosetta Code, "Pseudo-random numbers/Splitmix64".
  const std::uint64_t published[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                                     16408922859458223821u};
  const std::vector<float> drawn = score(1234567, {0, 1, 2, 3, 4});
  for (std::size_t i = 0; i < 5; ++i) CHECK(drawn[i] == static_cast<float>(static_cast<double>(published[i] >> 40) / 16777216.0));
}

TEST_CASE("a token's score depends on its position and the seed, not on other tokens") {
  const std::vector<float> drawn = score(5, {0, 7, 9, 4'294'967'295u});
  CHECK(score(5, {7}) == std::vector<float>{drawn[1]});
  CHECK(score(5, {9, 4'294'967'295u}) == std::vector<float>{drawn[2], drawn[3]});
  CHECK(score(6, {7}) != std::vector<float>{drawn[1]});
}

TEST_CASE("the scores are uniform in [0, 1)") {
  std::vector<position> positions(100'000);
  std::iota(positions.begin(), positions.end(), 0u);
  std::vector<int> tenths(10);
  for (const float x : score(3, positions)) {
    REQUIRE(x >= 0.0f);
    REQUIRE(x < 1.0f);
    ++tenths[static_cast<std::size_t>(x * 10)];
  }
  for (const int count : tenths) CHECK(std::abs(count - 10'000) < 475);  // five standard deviations; one is sqrt(100000 * 0.1 * 0.9)
}

}  // namespace
