// SPDX-License-Identifier: MIT
// Chooses the next token from logits: greedy, or drawn after top-k, top-p and min-p, in that order (as llama.cpp's default chain does).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune::inline v0 {

struct sampling {
  double temperature = 0.0;  // 0: greedy
  std::size_t top_k = 40;    // tokens with the highest logits; 0: all
  double top_p = 0.95;       // the fewest of those with this much probability; 1: all
  double min_p = 0.05;       // of those, the ones with at least this share of the best one's probability; 0: all
  std::uint64_t seed = 0;
  friend bool operator==(const sampling&, const sampling&) = default;
};

/// The lowest id among the largest logits.
template <class Scalar>
token_id greedy(std::span<const Scalar> logits) {
  return static_cast<token_id>(std::ranges::max_element(logits) - logits.begin());
}

/// Draws are a function of the seed and the logits seen so far, the same on every platform.
class sampler {
 public:
  explicit sampler(sampling s = {}) : sampling_(s), state_(s.seed) {}

  template <class Scalar>
  token_id operator()(std::span<const Scalar> logits) {
    if (sampling_.temperature <= 0.0) return greedy(logits);
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), token_id{0});
    const std::size_t k = sampling_.top_k == 0 ? logits.size() : std::min(sampling_.top_k, logits.size());
    std::ranges::partial_sort(order_, order_.begin() + static_cast<std::ptrdiff_t>(k),
                              [&](token_id a, token_id b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    order_.resize(k);

    weights_.resize(k);
    const double best = logits[order_.front()];
    for (std::size_t i = 0; i < k; ++i) weights_[i] = std::exp((static_cast<double>(logits[order_[i]]) - best) / sampling_.temperature);
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    std::size_t n = 0;
    double mass = 0.0;
    while (n < k && (n == 0 || (mass < sampling_.top_p * total && weights_[n] >= sampling_.min_p))) mass += weights_[n++];

    double left = uniform() * mass;
    for (std::size_t i = 0; i + 1 < n; ++i)
      if ((left -= weights_[i]) < 0.0) return order_[i];
    return order_[n - 1];
  }

 private:
  /// In [0, 1), from SplitMix64 (https://prng.di.unimi.it/splitmix64.c).
  double uniform() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }

  sampling sampling_;
  std::uint64_t state_;
  std::vector<token_id> order_;  // by falling logit
  std::vector<double> weights_;  // (order), relative to the best
};

}  // namespace lazyprune::inline v0
