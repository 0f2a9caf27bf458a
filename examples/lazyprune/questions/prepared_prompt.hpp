// SPDX-License-Identifier: MIT
// What a setting does to a prompt before the model answers: it compresses it, or looks at it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "questions/method.hpp"

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {
struct token_range;
}  // namespace v0

namespace program {

class engine;

/// What the model answers to, and what it took to prepare.
struct prepared_prompt {
  std::vector<token_id> tokens;
  policy_spec policy;  // with the scores that it is given
  double seconds = 0;
  std::size_t bytes = 0;  // the most that it took, the weights aside
};

/// Most settings leave the prompt as it is, which takes no time. `context`: the prompt's tokens that may be compressed away, less those
/// that the setting keeps. `expected`: how long the whole prompt with its answer will get.
prepared_prompt prepared(std::span<const token_id> prompt, token_range context, const eval_setting& setting, std::size_t expected,
                         engine& model);

}  // namespace program
}  // namespace lazyprune
