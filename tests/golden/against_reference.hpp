// SPDX-License-Identifier: MIT
// Checks that whole small models in a backend differ from the reference at most as far as the backend's arithmetic allows.
#pragma once

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/random_source.hpp>

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "../model/followed.hpp"
#include "../model/tiny_model.hpp"
#include "../path_tolerance.hpp"
#include "../tested_path.hpp"
#include "family_weights.hpp"

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

/// Compares runs of a model in a `Backend` with a run in the reference. `load(backend, type)` loads the model with weights of this type. In
/// every type the weights have the same values, which are bf16 numbers. `rounds(execution)` is true if a backend with this execution rounds
/// the activations that are multiplied by bf16 weights. A backend that keeps queries, keys and values in operands then also rounds the
/// results of products.
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
    const path_tolerance allowed(rounds(how), v.kv, v.weights, oracle.config, prompt_tokens + steps, attention_from_operands<Backend>);
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
    MESSAGE(v.name << ": the largest difference of logits, as a share of the allowed one, is " << largest);
    CHECK(largest < 1);
    CHECK(largest > 0.01);  // a smaller difference would mean that the path does not round
    CHECK(furthest_other_choice(expected, leader, own, [&](std::size_t layers, double spread) { return allowed.scores(layers, spread); }) <
          1);
  }
}

/// Calls `check(load, stages)` for a random model of four layers, smaller than the bundled one.
template <class Check>
void check_random_model(const Check& check, const lazyprune::attention_shape& shape = {6, 2, 8}) {
  using namespace lazyprune;
  model_config config = shape_named("pocket");
  config.vocabulary = 199;
  config.hidden = 48;
  config.layers = 4;
  config.n_heads = shape.heads;
  config.n_kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.ffn = 80;
  check([&](auto& backend, dtype as) { return load_model(backend, config, random_source(config, dtype::bf16), {.as = as}); },
        stages{{1, 0.7}, {3, 0.5}});
}

/// Calls `check` for models with the features of other families: windows, soft caps, GELU, norms after the blocks, LongRoPE, partial RoPE.
template <class Check>
void check_families(const Check& check) {
  using namespace lazyprune;
  const std::map<std::string, stages> runs{
      {"gemma2", stages{{2, 0.7}, {3, 0.5}}}, {"gemma3", stages{{3, 0.5}}}, {"phi3_partial", stages{{1, 0.7}, {3, 0.5}}}};
  for (const auto& run : runs) {
    CAPTURE(run.first);
    model_config config = config_of(family_goldens().at(run.first));
    config.max_positions = 256;
    check([&](auto& backend, dtype as) { return load_model(backend, config, family_weights(config, true), {.as = as}); }, run.second);
  }
}

}  // namespace lazyprune_test
