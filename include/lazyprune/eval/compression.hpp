// SPDX-License-Identifier: MIT
// Prompt compression by self-information, after Selective Context (Li et al. 2023, arXiv 2310.06201): what a language model could have
// guessed need not be read.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/order.hpp>

namespace lazyprune::inline v0 {

/// The `share` of the prompt's tokens (rounded up) with the most self-information, in their order; the last one, which asks, always among
/// them. `information` (prompt): -log p(token | those before it), infinity for the first. Selective Context scores with a small model,
/// chooses whole phrases, and leaves the question as it is; here the tokens of the whole prompt are chosen one by one. Throws `error`
/// where the prompt is empty, or there is not one number a token.
inline std::vector<token_id> compressed(std::span<const token_id> prompt, std::span<const double> information, fraction share) {
  if (prompt.empty() || information.size() != prompt.size())
    throw error("compression", "self-information", std::to_string(prompt.size()) + " numbers, one a token of a prompt",
                std::to_string(information.size()));
  std::vector<float> scores;
  for (const double nats : information) scores.push_back(static_cast<float>(nats));
  scores.back() = std::numeric_limits<float>::infinity();
  std::vector<std::uint32_t> kept(prompt.size());
  kept.resize(detail::best(scores, share_of(share, prompt.size()), kept));
  std::vector<token_id> out;
  for (const std::uint32_t i : kept) out.push_back(prompt[i]);
  return out;
}

}  // namespace lazyprune::inline v0
