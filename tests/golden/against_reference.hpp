// SPDX-License-Identifier: MIT
// Whole small models in a backend: as far from the reference as the backend's arithmetic says, and no further.
#pragma once

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../model/followed.hpp"
#include "../model/tiny_model.hpp"
#include "../path_tolerance.hpp"
#include "../tested_path.hpp"

namespace lazyprune_test {

inline constexpr std::size_t prompt_tokens = 100, steps = 6;

inline lazyprune::token_id token(std::size_t i, std::size_t vocabulary) {
  return static_cast<lazyprune::token_id>(i * i * 31 % vocabulary);
}

template <class Backend, class Scorer>
std::vector<lazyprune::step_trace> run(const lazyprune::model<Backend>& net, Backend& backend, const Scorer& scorer,
                                       const lazyprune::stages& when) {
  using namespace lazyprune;
  workspace<Backend> work(net, backend);
  auto text = begin(net, policy{scorer, when, top_k{}, keep_all{}});
  std::vector<token_id> prompt;
  generation_options options;
  options.trace_logits = true;
  for (std::size_t i = 0; i < prompt_tokens; ++i) prompt.push_back(token(i, net.config.vocabulary));
  for (std::size_t i = 0; i < steps; ++i) options.force.push_back(token(prompt_tokens + i, net.config.vocabulary));
  return generate(work, text, prompt, options).trace;
}

/// `load(backend, weights)` makes the model, whose weights are bf16 numbers, in a backend; `rounds(execution)`: whether one that is made so
/// rounds what meets numbers in bf16.
template <class Backend, class Load, class Rounds>
void check_against_reference(const Load& load, const Rounds& rounds, const lazyprune::stages& when) {
  using namespace lazyprune;
  reference<double> exact;
  const auto oracle = load(exact, dtype::f32);
  score_log leader;
  const auto expected = run(oracle, exact, followed(last_query_attention{}, leader), when);
  struct variant {
    std::string name;
    dtype weights, kv;
    bool exact;
  };
  const variant variants[] = {{"f32", dtype::f32, dtype::f32, false},
                              {"bf16, exact, keys and values in f32", dtype::bf16, dtype::f32, true},
                              {"bf16, exact", dtype::bf16, dtype::bf16, true},
                              {"bf16", dtype::bf16, dtype::bf16, false}};
  for (const variant& v : variants) {
    CAPTURE(v.name);
    const execution how = tested_execution({.threads = 2, .kv = v.kv, .exact = v.exact});
    Backend backend(how);
    score_log own;
    const auto result = run(load(backend, v.weights), backend, followed(last_query_attention{}, own, &leader), when);
    const path_tolerance allowed(rounds(how), v.kv, v.weights, oracle.config, prompt_tokens + steps);
    double largest = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      REQUIRE(result[s].layers == expected[s].layers);
      double apart = 0, squares = 0;
      for (std::size_t i = 0; i < oracle.config.vocabulary; ++i) {
        apart = std::max(apart, std::abs(result[s].logits[i] - expected[s].logits[i]));
        squares += expected[s].logits[i] * expected[s].logits[i];
      }
      largest = std::max(largest, apart / allowed.logits(std::sqrt(squares / static_cast<double>(oracle.config.vocabulary))));
    }
    MESSAGE(v.name << ": of what is allowed, logits take " << largest);
    CHECK(largest < 1);
    CHECK(largest > 0.01);  // the path rounds what it says that it does
    CHECK(furthest_other_choice(expected, leader, own, [&](std::size_t layers, double spread) { return allowed.scores(layers, spread); }) <
          1);
  }
}

}  // namespace lazyprune_test
