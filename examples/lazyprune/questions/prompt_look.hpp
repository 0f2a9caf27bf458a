// SPDX-License-Identifier: MIT
// A look at a prompt, before the same model answers: the first layers read the prompt, and their attention scores its tokens.
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
  std::size_t bytes = 0;  // peak memory without the weights
};

/// Computes the first `layers` layers, and no later one. `layers` is at least 1 and less than the model's number of layers. The score of a
/// token is the attention that the prompt's last 8 queries pay to it in the last computed layer. This attention is averaged over the 8
/// queries and all heads, then over 7 tokens with the scored token in the middle. `expected`: the length of prompt and answer in tokens, at
/// least the length of the prompt (sequence::expect).
prompt_look look_at(std::span<const token_id> prompt, layer_id layers, std::size_t expected, engine& model);

}  // namespace program
}  // namespace lazyprune
