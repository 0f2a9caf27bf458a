// SPDX-License-Identifier: MIT
// Chooses the next token from logits. It takes the best token (greedy), or draws a token. Before a draw it applies top-k, top-p, min-p and
// temperature, in this order, as the default chain of llama.cpp does. A repeat penalty changes the logits first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <lazyprune/core/mix.hpp>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

struct sampling {
  double temperature = 0.0;  // 0: greedy
  std::size_t top_k = 40;    // keeps the tokens with the highest logits; 0: all
  double top_p = 0.95;       // of the tokens kept so far, keeps the likeliest until their share of the probability is at least this; 1: all
  double min_p = 0.05;       // of the tokens kept so far, keeps those with at least this share of the best token's probability; 0: all
  // Divides the positive logits of recent tokens and multiplies their negative ones (arXiv 1909.05858, section 4.1). 1: off
  double repeat_penalty = 1.0;
  std::uint64_t seed = 0;
  friend bool operator==(const sampling&, const sampling&) = default;
};

/// Returns the largest number. `numbers` has at least one, and no NaN. The inner loop has a constant length, so that compilers vectorise it
/// even at -O2.
template <class Scalar>
Scalar largest(std::span<const Scalar> numbers) {
  constexpr std::size_t lanes = 32;
  Scalar most = numbers[0];
  std::size_t i = 0;
  if (numbers.size() >= lanes) {
    Scalar most_in[lanes];
    std::ranges::copy(numbers.first(lanes), most_in);
    for (i = lanes; i + lanes <= numbers.size(); i += lanes)
      for (std::size_t j = 0; j < lanes; ++j) most_in[j] = numbers[i + j] > most_in[j] ? numbers[i + j] : most_in[j];
    most = *std::ranges::max_element(most_in);
  }
  for (; i < numbers.size(); ++i) most = std::max(most, numbers[i]);
  return most;
}

/// Returns the token with the largest logit; for equal logits, the lowest id. With NaN among the logits, returns any token.
template <class Scalar>
token_id greedy(std::span<const Scalar> logits) {
  const auto found = std::ranges::find(logits, largest(logits));
  return found == logits.end() ? 0 : static_cast<token_id>(found - logits.begin());
}

/// Returns log(sum(exp(logits))), computed in double. The result minus a token's logit is -log of the token's softmax probability, in nats.
template <class Scalar>
double log_sum_exp(std::span<const Scalar> logits) {
  const double most = largest(logits);
  double sum = 0;
  for (const Scalar logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

/// Chooses tokens. On every platform a draw depends only on the options, the logits and the number of earlier draws. With a repeat penalty
/// it also depends on the tokens given to `accept`.
class sampler {
 public:
  /// The repeat penalty looks at this many of the last tokens, as in llama.cpp (--repeat-last-n).
  static constexpr std::size_t repeat_window = 64;

  explicit sampler(sampling s = {}) : sampling_(s) {}

  /// Tells the sampler the tokens of the sequence, for the repeat penalty. The caller passes the prompt, and then each chosen token.
  void accept(std::span<const token_id> tokens) {
    if (sampling_.repeat_penalty == 1.0) return;
    tokens = tokens.last(std::min(tokens.size(), repeat_window));
    recent_.insert(recent_.end(), tokens.begin(), tokens.end());
    if (recent_.size() > repeat_window) recent_.erase(recent_.begin(), recent_.end() - static_cast<std::ptrdiff_t>(repeat_window));
  }

  template <class Scalar>
  token_id operator()(std::span<const Scalar> logits) {
    if (recent_.empty()) return choose(logits);
    std::vector<Scalar> changed(logits.begin(), logits.end());
    penalize_repeats(std::span<Scalar>(changed));
    return choose(std::span<const Scalar>(changed));
  }

 private:
  /// Penalizes each recent token once, even if it occurs several times.
  template <class Scalar>
  void penalize_repeats(std::span<Scalar> logits) const {
    const auto penalty = static_cast<Scalar>(sampling_.repeat_penalty);
    for (auto token = recent_.begin(); token != recent_.end(); ++token) {
      if (std::find(recent_.begin(), token, *token) != token) continue;
      Scalar& logit = logits[*token];
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
  }

  template <class Scalar>
  token_id choose(std::span<const Scalar> logits) {
    if (sampling_.temperature <= 0.0) return greedy(logits);
    order_.clear();
    const double best = logits[at(0, logits)];
    const auto weight = [&](token_id token, double temperature) {
      return std::exp((static_cast<double>(logits[token]) - best) / temperature);
    };
    const auto sum_of = [&](std::size_t count, double temperature) {
      const bool all = count == logits.size();  // the sum over all tokens needs no order
      double sum = 0.0;
      for (std::size_t i = 0; i < count; ++i) sum += weight(all ? static_cast<token_id>(i) : at(i, logits), temperature);
      return sum;
    };

    // Top-p and min-p look at the probabilities before the temperature.
    const std::size_t k = sampling_.top_k == 0 ? logits.size() : std::min(sampling_.top_k, logits.size());
    std::size_t n = k;
    if (sampling_.top_p < 1.0 || sampling_.min_p > 0.0) {
      const double enough = sampling_.top_p < 1.0 ? sampling_.top_p * sum_of(k, 1.0) : std::numeric_limits<double>::infinity();
      n = 0;
      for (double mass = 0.0; n < k; ++n) {
        const double next = weight(at(n, logits), 1.0);
        if (n > 0 && (mass >= enough || next < sampling_.min_p)) break;
        mass += next;
      }
    }

    double left = uniform() * sum_of(n, sampling_.temperature);
    for (std::size_t i = 0; i + 1 < n; ++i)
      if ((left -= weight(at(i, logits), sampling_.temperature)) < 0.0) return order_[i];
    return at(n - 1, logits);
  }

  /// Returns the token with the i-th largest logit, counted from 0; for equal logits, the lowest id comes first. Sorts only as many tokens
  /// as are asked for, and some more: the first few usually have nearly all of the probability.
  template <class Scalar>
  token_id at(std::size_t i, std::span<const Scalar> logits) {
    if (i >= order_.size()) sort_best(std::min(std::max({std::size_t{64}, 4 * order_.size(), i + 1}), logits.size()), logits);
    return order_[i];
  }

  /// Makes `order_` the `count` best tokens, in order.
  template <class Scalar>
  void sort_best(std::size_t count, std::span<const Scalar> logits) {
    const auto before = [&](token_id a, token_id b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
    const auto keep_best = [&] {
      std::ranges::nth_element(order_, order_.begin() + static_cast<std::ptrdiff_t>(count - 1), before);
      order_.resize(count);
    };
    constexpr std::size_t block = 64;
    order_.clear();
    std::optional<Scalar> bound;  // the logit of the worst of `count` tokens; a later token must have a larger one
    for (std::size_t first = 0; first < logits.size(); first += block) {
      const std::size_t end = std::min(first + block, logits.size());
      if (bound && largest(logits.subspan(first, end - first)) <= *bound) continue;  // most blocks
      for (std::size_t token = first; token < end; ++token)
        if (!bound || logits[token] > *bound) order_.push_back(static_cast<token_id>(token));
      if (order_.size() < 2 * count) continue;
      keep_best();
      bound = logits[order_.back()];
    }
    keep_best();
    std::ranges::sort(order_, before);
  }

  /// Returns the next random number, in [0, 1).
  double uniform() { return static_cast<double>(mix(sampling_.seed, draws_++) >> 11) * 0x1p-53; }

  sampling sampling_;
  std::uint64_t draws_ = 0;
  std::vector<token_id> recent_;  // the last tokens of the sequence, at most repeat_window; empty without a penalty
  std::vector<token_id> order_;   // the best tokens, by descending logit
};

}  // namespace v0
}  // namespace lazyprune
