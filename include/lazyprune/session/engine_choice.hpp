// SPDX-License-Identifier: MIT
// An engine may choose tokens itself, for example on its device. If the number of tokens that go on is known before any score, the engine
// need not show evidence. It chooses by the rules below, and shows the session what it chose. The session checks the choice and
// does the bookkeeping.
//
// The rules: required tokens stay, and excluded tokens do not. The others are ranked by score. NaN is the lowest score. Equal scores are
// ranked by position, the later one first. If tokens are chosen in pages, the score of a page is the highest score of its tokens. All pages
// with a required token stay, and equal pages are ranked by position too. The best tokens or pages go on, until `count` tokens stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/session/index_fault.hpp>

namespace lazyprune {
inline namespace v0 {

/// How many of the active tokens of the entered layer go on.
struct selection_quota {
  std::size_t count;     // tokens that go on, the required ones included
  std::size_t page = 1;  // more than 1: whole pages go on. A page holds the positions p * page to (p + 1) * page - 1
  /// True if each dropped row of this layer gets a slot of the aux store. If not, the store keeps none, or it ranks the rows by score.
  bool stores_dropped = false;
  bool needs_scores = true;  // whether the choice must come with its scores, because the store ranks dropped tokens by them
  /// True if the score of a token is its number in the evidence, reduced over the heads as step::over_heads says. If not, the engine must
  /// know the policy's scorer to choose as the session would, and this scorer must keep no state of its own.
  bool row_is_score = false;
  friend bool operator==(const selection_quota&, const selection_quota&) = default;
};

/// The tokens that an engine chose in the entered layer.
struct chosen_tokens {
  std::span<const std::uint32_t> indices;  // (quota.count) into plan.active, ascending
  /// (active) the scores by which they were chosen, all finite; or empty. Without them the session cannot tell the margin, and remembers
  /// the score 0 for the dropped tokens.
  std::span<const float> scores{};
};

/// A layer that follows a choice, before the choice is known.
struct layer_counts {
  layer_id layer;
  std::size_t active;       // all of them are rows: none has keys at this layer yet
  std::size_t output_rows;  // the last rows, which need this layer's output
  bool chooses;             // whether the engine chooses after this layer, too
  std::size_t kept;         // the tokens that go on
  friend bool operator==(const layer_counts&, const layer_counts&) = default;
};

/// Why a choice is refused.
struct choice_not_open {};  // no choice was to be made after this layer, or its number of tokens depends on the scores
struct wrong_choice_count {
  std::size_t wanted, found;
};
struct wrong_choice_token {
  enum reason : std::uint8_t { left_out, excluded, torn };  // a required token is left out, a token cannot go on, a page is not whole
  position token;
  reason why;
};
struct wrong_choice_scores {
  std::size_t wanted, found;  // the numbers of scores
};
struct wrong_choice_score {
  position token;
  float score;
};
using choice_fault =
    std::variant<choice_not_open, wrong_choice_count, index_fault, wrong_choice_token, wrong_choice_scores, wrong_choice_score>;

/// The error to report for a choice after `done` layers. `call` is the call that reports it.
inline error error_of(const choice_fault& fault, layer_id done, const char* call) {
  const std::string place = " after layer " + std::to_string(done - 1);
  const auto refused = [&](const std::string& expected, const std::string& found, error_code code = error_code::bad_input) {
    return error("session", call, expected, found, code);
  };
  if (std::holds_alternative<choice_not_open>(fault))
    return refused("no chosen tokens" + place + ", because there is no quota", "a choice of the engine", error_code::wrong_order);
  if (const auto* count = std::get_if<wrong_choice_count>(&fault))
    return refused(std::to_string(count->wanted) + " chosen tokens" + place, std::to_string(count->found));
  if (const auto* index = std::get_if<index_fault>(&fault))
    return refused("ascending indices of active tokens, below " + std::to_string(index->below) + ", in the choice" + place, index->found());
  if (const auto* scores = std::get_if<wrong_choice_scores>(&fault))
    return refused(std::to_string(scores->wanted) + " scores with the choice" + place, std::to_string(scores->found));
  if (const auto* score = std::get_if<wrong_choice_score>(&fault))
    return refused("finite scores with the choice" + place,
                   std::to_string(score->score) + " for the token at position " + std::to_string(score->token));
  const auto& token = std::get<wrong_choice_token>(fault);
  const std::string at = "the token at position " + std::to_string(token.token);
  if (token.why == wrong_choice_token::left_out) return refused("all required tokens in the choice" + place, "a choice without " + at);
  if (token.why == wrong_choice_token::excluded)
    return refused("only tokens with a hidden state in the choice" + place, at + ", whose hidden state is gone");
  return refused("whole pages in the choice" + place, "a part of the page of " + at);
}

}  // namespace v0
}  // namespace lazyprune
