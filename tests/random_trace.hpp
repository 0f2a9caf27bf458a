// SPDX-License-Identifier: MIT
// Traces as a pruning run could write them, with random kept sets. Tests of writing, comparing and drawing traces use them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include <lazyprune/session/trace.hpp>

namespace lazyprune_test {

struct trace_shape {
  std::size_t layers = 4;
  std::size_t prompt = 20;      // tokens of the first step; each later step has one token
  std::size_t steps = 5;        // including the first
  std::size_t vocabulary = 11;  // number of logits in a step; 0: none
  double keep = 0.7;            // the probability that a token goes on to the next layer; the last token always does
};

/// A random finite double of any size.
inline double any_double(std::mt19937& random) {
  for (;;) {
    const std::uint64_t bits = static_cast<std::uint64_t>(random()) << 32 | random();
    if (const auto value = std::bit_cast<double>(bits); std::isfinite(value)) return value;
  }
}

inline std::vector<lazyprune::step_trace> random_trace(std::mt19937& random, const trace_shape& shape = {}) {
  using namespace lazyprune;
  std::vector<step_trace> steps;
  std::vector<std::size_t> frontier;
  std::bernoulli_distribution stays(shape.keep);
  for (std::size_t s = 0; s < shape.steps; ++s) {
    step_trace& step = steps.emplace_back();
    step.step = s;
    for (std::size_t i = 0; i < (s == 0 ? shape.prompt : 1); ++i) step.tokens.push_back(static_cast<token_id>(random()));
    frontier.resize(frontier.size() + step.tokens.size());
    std::vector<position> active(frontier.size()), carried;
    for (std::size_t t = 0; t < active.size(); ++t) active[t] = static_cast<position>(t);
    for (std::size_t l = 0; l < shape.layers; ++l) {
      if (l > 0) std::erase_if(active, [&](position t) { return t + 1 < frontier.size() && !stays(random); });
      layer_trace& layer = step.layers.emplace_back();
      layer.active = active;
      for (const position t : active) {
        if (frontier[t] != l) continue;
        frontier[t] = l + 1;
        layer.rows.push_back(t);
        if (l > 0 && !std::ranges::binary_search(carried, t)) layer.revived.push_back(t);
      }
      carried = layer.rows;
      if (l > 0) step.margin.push_back(random() % 3 ? std::optional<double>(any_double(random)) : std::nullopt);
    }
    step.next = static_cast<token_id>(random());
    for (std::size_t i = 0; i < shape.vocabulary; ++i) step.logits.push_back(any_double(random));
  }
  return steps;
}

}  // namespace lazyprune_test
