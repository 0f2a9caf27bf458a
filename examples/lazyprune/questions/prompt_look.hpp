// SPDX-License-Identifier: MIT
// A look at a prompt by the first layers of the model that will answer it, for scores that are given before it begins.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
namespace program {

class engine;

struct prompt_look {
  std::vector<float> scores;  // (prompt)
  double seconds = 0;
  std::size_t bytes = 0;  // the most that it took, the weights aside
};

/// The attention of the prompt's last 8 queries in layer `layers` of the model, from 1 to one less than there are: the mean over its heads,
/// and then of 7 neighbours. Nothing is computed after that layer. `expected`: how long the text with its answer will get, at least as long
/// as the prompt (sequence::expect).
prompt_look look_at(std::span<const token_id> prompt, layer_id layers, std::size_t expected, engine& model);

}  // namespace program
}  // namespace lazyprune
