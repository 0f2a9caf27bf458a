// SPDX-License-Identifier: MIT
#include <lazyprune/model/sampler.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

using namespace lazyprune;

namespace {

constexpr std::array<float, 5> logits{0.0f, 2.0f, 1.0f, 2.0f, -1.0f};

/// Returns how often each token occurs in `n` draws.
std::array<int, 5> draw(const sampling& s, int n) {
  sampler choose(s);
  std::array<int, 5> counts{};
  for (int i = 0; i < n; ++i) ++counts[choose(std::span<const float>(logits))];
  return counts;
}

}  // namespace

TEST_CASE("greedy: the largest logit, and among equal ones the lowest id") {
  CHECK(greedy(std::span<const float>(logits)) == 1);
  CHECK(draw({}, 3) == std::array<int, 5>{0, 3, 0, 0, 0});
}

TEST_CASE("the largest number is found at any place of a span of any length") {
  for (std::size_t size = 1; size < 200; ++size) {
    std::vector<float> numbers(size, -2.0f);
    CHECK(largest(std::span<const float>(numbers)) == -2.0f);
    CHECK(greedy(std::span<const float>(numbers)) == 0);
    for (std::size_t at = 0; at < size; ++at) {
      numbers[at] = -1.0f;
      REQUIRE(largest(std::span<const float>(numbers)) == -1.0f);
      REQUIRE(greedy(std::span<const float>(numbers)) == at);
      numbers[at] = -2.0f;
    }
  }
}

TEST_CASE("greedy returns a token of the vocabulary even if logits are NaN") {
  for (std::size_t size = 1; size < 100; ++size) {
    std::vector<float> numbers(size, std::numeric_limits<float>::quiet_NaN());
    CHECK(greedy(std::span<const float>(numbers)) < size);
    numbers[size / 2] = 1.0f;
    CHECK(greedy(std::span<const float>(numbers)) < size);
  }
}

TEST_CASE("the sampler sorts only as many tokens as it needs, and draws as if it had sorted all") {
  std::vector<float> many(3000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(mix(5, i) % 1000) / 125.0f;  // many are equal
  std::vector<token_id> order(many.size());
  std::iota(order.begin(), order.end(), token_id{0});
  std::ranges::sort(order, [&](token_id a, token_id b) { return many[a] != many[b] ? many[a] > many[b] : a < b; });
  for (const sampling& s :
       {sampling{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0}, sampling{.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0},
        sampling{.temperature = 2, .top_k = 0, .top_p = 0.9, .min_p = 0}, sampling{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.3},
        sampling{.temperature = 1, .top_k = 500, .top_p = 0.8, .min_p = 0.1},
        sampling{.temperature = 1, .top_k = 70, .top_p = 1, .min_p = 0}}) {
    CAPTURE(s.temperature);
    CAPTURE(s.top_p);
    CAPTURE(s.min_p);
    const std::size_t k = s.top_k == 0 ? many.size() : s.top_k;
    const auto share = [&](std::size_t i, double temperature) { return std::exp((many[order[i]] - many[order[0]]) / temperature); };
    double total = 0, mass = 0, drawn = 0;
    for (std::size_t i = 0; i < k; ++i) total += share(i, 1);
    std::size_t n = 0;
    for (; n < k && (n == 0 || (mass < s.top_p * total && share(n, 1) >= s.min_p)); ++n) mass += share(n, 1);
    for (std::size_t i = 0; i < n; ++i) drawn += share(i, s.temperature);
    sampler choose(s);
    std::uint64_t draws = 0;
    for (int times = 0; times < 200; ++times) {
      double left = static_cast<double>(mix(s.seed, draws++) >> 11) * 0x1p-53 * drawn;
      std::size_t i = 0;
      while (i + 1 < n && (left -= share(i, s.temperature)) >= 0) ++i;
      CHECK(choose(std::span<const float>(many)) == order[i]);
    }
  }
}

TEST_CASE("log_sum_exp is accurate, also if the exponentials overflow") {
  const std::array<double, 2> halves{3.0, 3.0};
  CHECK(log_sum_exp(std::span<const double>(halves)) == doctest::Approx(3 + std::log(2.0)).epsilon(1e-15));
  const std::array<float, 3> large{-1000.0f, 1000.0f, 999.0f};
  CHECK(log_sum_exp(std::span<const float>(large)) == doctest::Approx(1000 + std::log1p(std::exp(-1.0))).epsilon(1e-15));
}

TEST_CASE("a repeat penalty lowers the logit of each recent token once, however often the token occurs") {
  const std::span<const float> all(logits);
  const auto best_after = [&](double penalty, std::vector<token_id> text) {
    sampler choose({.repeat_penalty = penalty});
    choose.accept(text);
    return choose(all);
  };
  CHECK(best_after(1.5, {}) == 1);
  CHECK(best_after(1.0, {1}) == 1);
  CHECK(best_after(1.5, {1}) == 3);
  CHECK(best_after(1.5, {1, 3}) == 1);        // both logits are now 1.33
  CHECK(best_after(1.9, {1, 1, 1, 3}) == 1);  // both are now 1.05, still above the 1 of token 2
  CHECK(best_after(2.1, {1, 3}) == 2);
  const std::array<float, 2> negative{-1.0f, -1.5f};
  sampler choose({.repeat_penalty = 2.0});
  choose.accept(std::vector<token_id>{0});
  CHECK(choose(std::span<const float>(negative)) == 1);  // -2 is less than -1.5

  // A token before the window has no penalty any more.
  std::vector<token_id> long_ago{1};
  long_ago.resize(sampler::repeat_window, 0);
  CHECK(best_after(1.5, long_ago) == 3);
  long_ago.push_back(0);
  CHECK(best_after(1.5, long_ago) == 1);
  sampler bit_by_bit({.repeat_penalty = 1.5});
  for (const token_id token : long_ago) bit_by_bit.accept(std::span(&token, 1));
  CHECK(bit_by_bit(all) == 1);
}

TEST_CASE("random draws: the frequencies follow the softmax, and a seed repeats its draws") {
  const sampling all{.temperature = 1.0, .top_k = 0, .top_p = 1.0, .min_p = 0.0, .seed = 7};
  const auto counts = draw(all, 100000);
  CHECK(counts == draw(all, 100000));
  double sum = 0;
  for (const float l : logits) sum += std::exp(l);
  // The standard deviation of such a count is below sqrt(n) / 2 = 158. The bound is six standard deviations.
  for (std::size_t i = 0; i < 5; ++i) CHECK(std::abs(counts[i] - 100000 * std::exp(logits[i]) / sum) < 950);
}

TEST_CASE("top-k, top-p and min-p cut the tail") {
  CHECK(draw({.temperature = 1.0, .top_k = 1, .top_p = 1.0, .min_p = 0.0}, 50) == std::array<int, 5>{0, 50, 0, 0, 0});
  const auto two = draw({.temperature = 1.0, .top_k = 2, .top_p = 1.0, .min_p = 0.0}, 200);
  CHECK(two[1] + two[3] == 200);
  CHECK(two[3] > 50);
  // Probabilities are 0.05, 0.39, 0.14, 0.39, 0.02: two tokens hold 0.78, so three are needed for 0.8.
  const auto nucleus = draw({.temperature = 1.0, .top_k = 0, .top_p = 0.8, .min_p = 0.0}, 500);
  CHECK(nucleus[0] + nucleus[4] == 0);
  CHECK(nucleus[2] > 0);
  const auto likely = draw({.temperature = 1.0, .top_k = 0, .top_p = 1.0, .min_p = 0.5}, 500);  // 0.14 / 0.39 is below 0.5
  CHECK(likely[1] + likely[3] == 500);
  // The temperature does not decide which tokens stay, only how often each is drawn.
  const auto hot = draw({.temperature = 50.0, .top_k = 0, .top_p = 0.8, .min_p = 0.0}, 3000);
  CHECK(hot[0] + hot[4] == 0);
  CHECK(std::abs(hot[2] - 1000) < 200);
  CHECK(draw({.temperature = 0.01, .top_k = 0, .top_p = 1.0, .min_p = 0.0}, 50)[2] == 0);
  CHECK(draw({.temperature = 1.0, .top_k = 0, .top_p = 0.0, .min_p = 0.0}, 5)[1] == 5);
}
