// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/given_scores.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <fault.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include "policy/contract.hpp"

using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

using namespace contract;

struct given_values {
  static std::vector<given_scores> all() {
    return {{}, {position_scores({0.5f})}, {position_scores({-1.0f, 2.0f, 0.0f, 1e-30f, -3e38f, 7.0f})}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, given_values);

std::vector<float> score(const given_scores& scorer, const std::vector<position>& positions) {
  std::vector<float> out(positions.size());
  scorer.score({positions, 0, positions.back() + std::size_t{1}}, out);
  return out;
}

TEST_CASE("a position has the score given for it; positions after the list have the highest score in the list") {
  const given_scores scorer{position_scores({0.25f, 3.0f, -1.0f})};
  CHECK(score(scorer, {0, 1, 2}) == std::vector<float>{0.25f, 3.0f, -1.0f});
  CHECK(score(scorer, {2}) == std::vector<float>{-1.0f});
  CHECK(score(scorer, {1, 2, 3, 4'294'967'295u}) == std::vector<float>{3.0f, -1.0f, 3.0f, 3.0f});
  CHECK(score(given_scores{}, {0, 5}) == std::vector<float>{0.0f, 0.0f});
}

TEST_CASE("tokens without a given score rank before all tokens that have one") {
  const std::vector<position> positions{0, 1, 2, 3, 4};
  std::vector<float> scores = score({position_scores({0.25f, 3.0f, -1.0f})}, positions);
  std::vector<std::uint32_t> kept(5);
  CHECK(top_k{}.select(candidates{scores, positions, 2, 0}, kept) == 2);
  CHECK(std::vector(kept.begin(), kept.begin() + 2) == std::vector<std::uint32_t>{3, 4});
}

TEST_CASE("scores are read from text and written as text") {
  for (const std::vector<float>& scores : {std::vector{0.1f}, {0.1f, 1e20f, -3e-9f, 0.0f}, {16777216.0f, 1.0f / 3}}) {
    const position_scores written(scores);
    CAPTURE(written.text());
    CHECK(position_scores::read(written.text()) == written);
  }
  CHECK(position_scores({0.25f, 1e20f, -2.0f}).text() == "0.25/1e+20/-2");
  for (const char* text : {"", "/", "1/", "/1", "1,2", "1//2", "x", "1/inf", "1/nan", " 1"}) {
    CAPTURE(text);
    CHECK_FALSE(position_scores::read(text).has_value());
  }
}

TEST_CASE("copies share their numbers, and equality compares the numbers") {
  const position_scores one({1.0f, 2.0f}), other({1.0f, 2.0f});
  CHECK(one == other);
  CHECK(one != position_scores({1.0f}));
  CHECK(given_scores{one} == given_scores{other});
  CHECK(given_scores{one} != given_scores{});
}

TEST_CASE("an empty list and scores that are not finite are refused") {
  const auto fault = [](std::vector<float> scores) { return error_of([&] { position_scores made(std::move(scores)); }); };
  CHECK(fault({}) == at("scores"));
  CHECK(fault({1.0f, inf}) == at("scores: position 1", {", found inf"}));
  CHECK(fault({std::numeric_limits<float>::quiet_NaN()}) == at("scores: position 0"));
}

}  // namespace
