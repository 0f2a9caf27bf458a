// SPDX-License-Identifier: MIT
// Prompt compression by self-information, after Selective Context (Li et al. 2023, arXiv 2310.06201): what a language model could have
// guessed need not be read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/order.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
inline namespace v0 {

/// Tokens of a prompt, from `begin` to before `end`.
struct token_range {
  std::size_t begin, end;
  friend bool operator==(const token_range&, const token_range&) = default;
};

/// The tokens of a prompt's context: those that have nothing of the texts `before` and `after` it, the instruction and the question. Where
/// the prompt has lost its middle (eval/truncation.hpp) and one of these texts was cut with it, what is left of that text counts.
inline token_range context_of(std::span<const token_id> prompt, std::string_view before, std::string_view after, const tokenizer& tokens) {
  std::string text;
  std::vector<std::size_t> begins;  // of each token's text, and where the last one ends
  token_decoder decoder(tokens);
  for (const token_id id : prompt) {
    begins.push_back(text.size());
    text += decoder.push(id);
  }
  text += decoder.finish();
  begins.push_back(text.size());

  const auto as_read = [&](std::string_view part) { return tokens.decode(tokens.encode(part)); };
  const std::string head = as_read(before), tail = as_read(after);
  const auto head_end = static_cast<std::size_t>(std::ranges::mismatch(text, head).in1 - text.begin());
  const auto tail_begin =
      static_cast<std::size_t>(text.rend() - std::mismatch(text.rbegin(), text.rend(), tail.rbegin(), tail.rend()).first);
  const auto first_at = [&](std::size_t offset) {
    return static_cast<std::size_t>(std::ranges::lower_bound(begins, offset) - begins.begin());
  };
  const std::size_t begin = std::min(first_at(head_end), prompt.size());
  std::size_t end = first_at(tail_begin);
  if (begins[end] > tail_begin) --end;  // the token before has a part of it
  return {begin, std::max(begin, end)};
}

/// Leaves a `share` of the prompt's tokens (rounded up), in their order: all outside of `context`; the last one, which asks; and as many of
/// the context as there is room for, those with the most self-information. Where what is outside takes more than the share, it alone stays.
/// `information` (prompt): -log p(token | those before it), infinity for the first, which stays. Selective Context scores with a small
/// model and leaves out whole phrases; here the model itself scores, and tokens are chosen one by one. Throws `error` where the prompt is
/// empty, or there is not one number a token.
inline std::vector<token_id> compressed(std::span<const token_id> prompt, std::span<const double> information, token_range context,
                                        fraction share) {
  if (prompt.empty() || information.size() != prompt.size())
    throw error("compression", "self-information", std::to_string(prompt.size()) + " numbers, one a token of a prompt",
                std::to_string(information.size()));
  std::vector<float> scores(prompt.size(), std::numeric_limits<float>::infinity());
  for (std::size_t i = context.begin; i < std::min(context.end, prompt.size() - 1); ++i) scores[i] = static_cast<float>(information[i]);
  std::vector<std::uint32_t> kept(prompt.size());
  kept.resize(detail::best(scores, share_of(share, prompt.size()), kept));
  std::vector<token_id> out;
  for (const std::uint32_t i : kept) out.push_back(prompt[i]);
  return out;
}

}  // namespace v0
}  // namespace lazyprune
