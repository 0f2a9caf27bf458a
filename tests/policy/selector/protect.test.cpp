// SPDX-License-Identifier: MIT
#include <lazyprune/policy/selector/protect.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/selector/blocks.hpp>
#include <lazyprune/policy/selector/threshold.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/selector/top_p.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

template <class Selector>
std::vector<protect<Selector>> around(const Selector& inner) {
  using outer = protect<Selector>;
  return {outer(inner),       outer(inner, 4),          outer(inner, 0, 5),
          outer(inner, 2, 3), outer(inner, 1000, 1000), outer(inner, 1, 1, {{3, 5}, {9, 40}})};
}
struct protect_top_k_values {
  static auto all() { return around(top_k{}); }
};
struct protect_top_p_values {
  static auto all() { return around(top_p{0.5}); }
};
struct protect_threshold_values {
  static auto all() { return around(threshold{0.5f}); }
};
struct protect_blocks_values {
  static auto all() { return around(blocks{4}); }
};
struct protect_twice_values {
  static auto all() { return around(protect{top_k{}, 1, 1}); }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, protect_top_k_values, protect_top_p_values, protect_threshold_values, protect_blocks_values,
                          protect_twice_values);

using indices = std::vector<std::uint32_t>;

template <class Selector>
indices select(const Selector& selector, std::vector<float> scores, const std::vector<position>& positions, std::size_t keep,
               float required_mass = 0) {
  indices kept(scores.size());
  kept.resize(selector.select(candidates{scores, positions, keep, required_mass}, kept));
  return kept;
}

/// A selector that records the candidates that it gets.
struct witness {
  candidates* seen;
  std::size_t select(const candidates& c, std::span<std::uint32_t>) const {
    *seen = c;
    return 0;
  }
};
static_assert(token_selector<witness> && token_selector<protect<witness>>);

TEST_CASE("the first and the last positions stay, and count towards keep") {
  const std::vector<position> positions{0, 1, 3, 6, 8, 9};
  CHECK(select(protect{top_k{}, 2}, {0, 0, 7, 8, 9, inf}, positions, 4) == indices{0, 1, 4, 5});
  CHECK(select(protect{top_k{}, 3}, {0, 0, 7, 8, 9, inf}, positions, 4) == indices{0, 1, 4, 5});     // no token is left at position 2
  CHECK(select(protect{top_k{}, 0, 4}, {5, 6, 7, 0, 0, inf}, positions, 4) == indices{2, 3, 4, 5});  // positions 6 to 9
  CHECK(select(protect{top_k{}, 0, 1}, {5, 6, 7, 0, 0, inf}, positions, 2) == indices{2, 5});        // the query token alone
}

TEST_CASE("the positions in the spans stay, and count towards keep") {
  const std::vector<position> positions{0, 1, 3, 6, 8, 9};
  CHECK(select(protect{top_k{}, 0, 0, {{1, 3}}}, {9, 0, 0, 8, 7, inf}, positions, 4) == indices{0, 1, 2, 5});
  CHECK(select(protect{top_k{}, 0, 0, {{2, 2}, {7, 8}}}, {9, 0, 0, 8, 7, inf}, positions, 2) == indices{4, 5});
  CHECK(select(protect{top_k{}, 1, 0, {{0, 6}}}, {9, 0, 0, 8, 7, inf}, positions, 1) == indices{0, 1, 2, 3, 5});
  CHECK(select(protect{top_k{}, 0, 0, {{10, 99}}}, {9, 0, 0, 8, 7, inf}, positions, 2) == indices{0, 5});
}

TEST_CASE("if more tokens are protected than keep asks for, only the protected ones are kept") {
  CHECK(select(protect{top_k{}, 2, 2}, {0, 0, 7, 8, 0, inf}, {0, 1, 3, 6, 8, 9}, 1) == indices{0, 1, 4, 5});
  CHECK(select(protect{top_k{}, 100, 100}, {0, 0, 7, inf}, {0, 1, 3, 6}, 1) == indices{0, 1, 2, 3});
}

TEST_CASE("protect sets the scores of protected tokens to +inf, and raises required_mass and keep for them") {
  candidates seen{};
  std::vector<float> scores{0.25f, -1.0f, -inf, 0.5f, 0.125f, inf};
  const std::vector<position> positions{0, 1, 2, 5, 8, 9};
  std::vector<std::uint32_t> kept(6);
  protect{witness{&seen}, 3, 2}.select(candidates{scores, positions, 2, 1.0f}, kept);
  CHECK(scores == std::vector<float>{inf, inf, inf, 0.5f, inf, inf});
  CHECK(seen.scores.data() == scores.data());
  CHECK(seen.positions.data() == positions.data());
  CHECK(seen.keep == 5);
  CHECK(seen.required_mass == 1.375f);  // 1 + 0.25 + 0.125; scores without mass add nothing

  std::vector<float> large{0x1p24f, -1.0f, -inf, 0.5f, 2.0f, inf};
  protect{witness{&seen}, 3, 2}.select(candidates{large, positions, 2, 1.0}, kept);
  CHECK(seen.required_mass == 0x1p24 + 3);  // the sum is in double

  protect{witness{&seen}, 3, 2}.select(candidates{scores, positions, 6, 1.375f}, kept);
  CHECK(seen.keep == 6);
  CHECK(seen.required_mass == 1.375f);  // protected tokens that are +inf already add no mass
}

TEST_CASE("protecting tokens is the same as setting their scores to +inf") {
  std::mt19937 random(11);
  for (int run = 0; run < 5'000; ++run) {
    CAPTURE(run);
    const std::size_t n = 1 + random() % 40, keep = 1 + random() % n, first = random() % 6, last = random() % 6;
    const auto one = static_cast<position>(random() % 40), other = static_cast<position>(random() % 40);
    const position_spans spans = random() % 2 ? position_spans{} : position_spans{{one, one + 2}, {other, other + 4}};
    const std::vector<position> positions = some_positions(n, random);
    std::vector<float> scores = some_scores(n, random);
    scores.back() = inf;
    const indices kept = select(protect{top_k{}, first, last, spans}, scores, positions, keep);
    const indices kept_by_mass = select(protect{top_p{0.5}, first, last, spans}, scores, positions, keep);
    float mass = 0;
    const auto in_spans = [&](position p) {
      return !spans.list().empty() && ((p >= one && p <= one + 2) || (p >= other && p <= other + 4));
    };
    for (std::size_t i = 0; i < n; ++i)
      if (scores[i] < inf && (positions[i] < first || positions[i] + last > positions.back() || in_spans(positions[i]))) {
        mass += std::max(scores[i], 0.0f);
        scores[i] = inf;
      }
    CHECK(kept == best_by_sorting(scores, keep));
    const auto required = static_cast<std::size_t>(std::count(scores.begin(), scores.end(), inf));
    CHECK(kept_by_mass == select(top_p{0.5}, scores, positions, std::max(keep, required), mass));
  }
}

}  // namespace
