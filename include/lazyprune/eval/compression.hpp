// SPDX-License-Identifier: MIT
// Prompt compression by self-information, after Selective Context (Li et al. 2023, arXiv 2310.06201). It drops the tokens that a language
// model can predict.
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

/// Tokens of a prompt, from `begin` up to but not including `end`.
struct token_range {
  std::size_t begin, end;
  friend bool operator==(const token_range&, const token_range&) = default;
};

/// Returns the tokens of a prompt's context. They contain no character of `before` (the instruction) or `after` (the question). If middle
/// truncation (eval/truncation.hpp) has cut one of these texts, only what is left of that text is excluded.
inline token_range context_of(std::span<const token_id> prompt, std::string_view before, std::string_view after, const tokenizer& tokens) {
  std::string text;
  std::vector<std::size_t> begins;  // where each token's characters begin, and where the text ends
  token_decoder decoder(tokens);
  for (const token_id id : prompt) {
    begins.push_back(text.size());
    text += decoder.push(id);
  }
  text += decoder.flush();
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
  if (begins[end] > tail_begin) --end;  // the token before this place also contains a piece of `after`
  return {begin, std::max(begin, end)};
}

/// Returns a `share` of the prompt's tokens (rounded up), in their order. The result always has all tokens outside of `context`, and the
/// last token, which is the query. The rest of the share are the context's tokens with the most self-information. If the tokens that always
/// stay exceed the share, no others are kept. `information` (prompt) is -log p(token | tokens before it), in nats. The first token has
/// infinite information, and is therefore always kept. Selective Context scores with a small model and drops whole phrases. Here the model
/// itself scores, and tokens are chosen one by one. Throws `error` if the prompt is empty, or if `information` does not have one number for
/// each token.
inline std::vector<token_id> compressed(std::span<const token_id> prompt, std::span<const double> information, token_range context,
                                        fraction share) {
  if (prompt.empty() || information.size() != prompt.size())
    throw error("compression", "self-information", std::to_string(prompt.size()) + " numbers, one for each token of a prompt",
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
