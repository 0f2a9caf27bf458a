// SPDX-License-Identifier: MIT
// A model of a few thousand random numbers, for tests that are not about arithmetic.
#pragma once

#include <lazyprune/model/model.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/model/sequence.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace lazyprune_test {

inline lazyprune::model_config tiny_config(std::size_t layers = 4) {
  lazyprune::model_config c;
  c.family = "llama";
  c.vocabulary = 40;
  c.hidden = 16;
  c.layers = layers;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = 4;
  c.ffn = 24;
  c.max_positions = 256;
  return c;
}

template <class Backend>
lazyprune::model<Backend> tiny_model(Backend& backend, const lazyprune::model_config& c = tiny_config()) {
  return load_model(backend, c, lazyprune::random_source(c, lazyprune::dtype::f32));
}

template <class Backend, class Policy>
lazyprune::sequence<Backend> begin(const lazyprune::model<Backend>& net, Policy policy) {
  return {net, lazyprune::any_session(std::move(policy), {.layers = static_cast<lazyprune::layer_id>(net.config.layers)})};
}

/// Returns `n` token ids from the vocabulary of tiny_config(), the same ones in every call.
inline std::vector<lazyprune::token_id> some_tokens(std::size_t n) {
  std::vector<lazyprune::token_id> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<lazyprune::token_id>(lazyprune::mix(1, i) % tiny_config().vocabulary);
  return tokens;
}

}  // namespace lazyprune_test
