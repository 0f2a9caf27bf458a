// SPDX-License-Identifier: MIT
// Prepares a prompt before the model answers: compresses it, or finds scores for its tokens by a look (prompt_look.hpp).
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

/// The prompt that the model reads, and the cost of its preparation.
struct prepared_prompt {
  std::vector<token_id> tokens;
  policy_spec policy;  // after a look, its scorer is given_scores with the look's scores
  double seconds = 0;
  std::size_t bytes = 0;  // peak memory without the weights
};

/// Prepares the prompt for the setting. Most settings leave it as it is, at no cost. `context`: the tokens that compression may drop. The
/// first and last tokens that the setting protects are never dropped. `expected`: the length of the whole prompt and its answer, in tokens.
prepared_prompt prepared(std::span<const token_id> prompt, token_range context, const eval_setting& setting, std::size_t expected,
                         engine& model);

}  // namespace program
}  // namespace lazyprune
