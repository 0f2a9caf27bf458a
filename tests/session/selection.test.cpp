// SPDX-License-Identifier: MIT
#include <lazyprune/session/selection.hpp>

#include <lazyprune/policy/selector/top_k.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "unusual_numbers.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

using positions = std::vector<position>;

/// A selector that keeps the first tokens and records the candidates that it got.
struct first_ones {
  std::size_t count;
  candidates* seen;
  std::vector<float>* scores;
  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    *seen = c;
    scores->assign(c.scores.begin(), c.scores.end());
    for (std::uint32_t i = 0; i < count; ++i) kept[i] = i;
    return count;
  }
};

selection_scratch scratch_with(const std::vector<float>& scores) {
  selection_scratch scratch;
  scratch.reserve(scores.size());
  scratch.scores = scores;
  return scratch;
}

const auto all_can = [](position) { return true; };

}  // namespace

TEST_CASE("required tokens have +inf, count towards keep, and add their positive scores to required_mass") {
  positions active{0, 2, 5, 6, 7, 8};
  selection_scratch scratch = scratch_with({0.5f, not_a_number, 0.25f, -1.0f, 2.0f, 4.0f});
  candidates seen{};
  std::vector<float> scores;
  select(first_ones{1, &seen, &scores}, {.quota = 2, .required_from = 5}, active, scratch, all_can);
  CHECK(scores == std::vector<float>{0.5f, -infinity, infinity, infinity, infinity, infinity});
  CHECK(seen.required_mass == 6.25f);  // 0.25 + 2 + 4
  CHECK(seen.keep == 4);               // more tokens are required than the schedule wants
  CHECK(active == positions{0, 5, 6, 7, 8});
  CHECK(scratch.eligible == positions{2});
  CHECK(scratch.eligible_scores == std::vector<float>{-infinity});

  // A negative or infinite score of the query token has no mass. The sum is in double.
  for (const float of_query : {-3.0f, infinity, not_a_number}) {
    active = {0, 1, 2, 3};
    scratch = scratch_with({0.5f, 0x1p24f, 1.0f, of_query});
    select(first_ones{0, &seen, &scores}, {.quota = 1, .required_from = 1}, active, scratch, all_can);
    CHECK(seen.required_mass == 0x1p24 + 1);
    CHECK(active == positions{1, 2, 3});
  }
}

TEST_CASE("keep is at most the number of tokens that can go on") {
  positions active{1, 2, 3, 4};
  selection_scratch scratch = scratch_with({4.0f, 3.0f, 2.0f, 1.0f});
  candidates seen{};
  std::vector<float> scores;
  select(first_ones{0, &seen, &scores}, {.quota = 4, .required_from = 4}, active, scratch, [](position t) { return t != 2; });
  CHECK(seen.keep == 3);
  CHECK(seen.positions.size() == 3);
  CHECK(active == positions{4});
  CHECK(scratch.eligible == positions{1, 3});

  active = {1, 2, 3, 4};
  scratch.scores = {4.0f, 3.0f, 2.0f, 1.0f};
  select(top_k{}, {.quota = 0, .required_from = 4}, active, scratch, all_can);
  CHECK(active == positions{4});
}

TEST_CASE("if all new tokens are required, none of them is dropped") {
  positions active{0, 1, 2, 3};
  selection_scratch scratch = scratch_with({9.0f, 8.0f, 0.0f, 0.0f});
  CHECK(std::isnan(select(top_k{}, {.quota = 1, .required_from = 2}, active, scratch, all_can).margin));
  CHECK(active == positions{2, 3});
}

TEST_CASE("a scorer's own +inf does not make a token required, and no dropped score is infinite") {
  positions active{0, 1, 2, 3, 4};
  selection_scratch scratch = scratch_with({infinity, infinity, infinity, 0.5f, infinity});
  CHECK(select(top_k{}, {.quota = 3, .required_from = 4}, active, scratch, all_can).margin == 0.0f);
  CHECK(active == positions{1, 2, 4});
  CHECK(scratch.eligible == positions{0, 3});
  CHECK(scratch.eligible_scores == std::vector<float>{std::numeric_limits<float>::max(), 0.5f});

  // The required tokens stay even if every other score is higher.
  active = {0, 1, 2, 3, 4};
  scratch.scores = {infinity, infinity, infinity, -infinity, not_a_number};
  select(top_k{}, {.quota = 1, .required_from = 3}, active, scratch, all_can);
  CHECK(active == positions{3, 4});
}

TEST_CASE("a token that a wrapper requires but the inner selector drops has a finite score") {
  struct raises {
    std::size_t select(const candidates& c, std::span<std::uint32_t>) const {
      c.scores[0] = infinity;
      return 0;
    }
  };
  positions active{0, 1, 2};
  selection_scratch scratch = scratch_with({0.5f, 0.25f, 1.0f});
  select(raises{}, {.quota = 1, .required_from = 2}, active, scratch, all_can);
  CHECK(scratch.eligible_scores == std::vector<float>{std::numeric_limits<float>::max(), 0.25f});
}

TEST_CASE("a wrong list of the selector is reported, and every candidate stays") {
  struct reversed {
    std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = static_cast<std::uint32_t>(kept.size() - 1 - i);
      return c.keep;
    }
  };
  positions active{0, 1, 2, 3, 4, 5};
  selection_scratch scratch = scratch_with({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  const selection_outcome outcome =
      select(reversed{}, {.quota = 5, .required_from = 5}, active, scratch, [](position t) { return t != 2; });
  CHECK(outcome.fault == index_fault{.below = 5, .count = 5, .index = 3, .before = 4});
  CHECK(std::isnan(outcome.margin));
  CHECK(active == positions{0, 1, 3, 4, 5});
  CHECK(scratch.eligible.empty());
  CHECK(scratch.eligible_scores.empty());
}

TEST_CASE("the scratch has room for the longest sequence that was reserved") {
  selection_scratch scratch;
  scratch.reserve(100);
  scratch.reserve(10);
  CHECK(scratch.kept.size() == 100);
  CHECK(scratch.scores.capacity() >= 100);
  CHECK(selection_scratch::bytes_per_token == 28);
}
