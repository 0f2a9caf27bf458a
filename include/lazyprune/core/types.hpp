// SPDX-License-Identifier: MIT
// The types that all folders share: layers, token positions, and the inputs of schedules, selectors and stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lazyprune {
inline namespace v0 {

using layer_id = std::uint32_t;
using position = std::uint32_t;  // a token's place in its sequence, from 0; it never changes, and RoPE uses it
using token_id = std::uint32_t;  // an entry of the vocabulary

enum class phase : std::uint8_t { prefill, decode };

/// The answer of a schedule that does not prune.
inline constexpr std::size_t everything = static_cast<std::size_t>(-1);

/// An answer of a schedule: the tokens go on that have keys and values in the next layer, and those that the step requires. Nothing is
/// brought back, and scores decide nothing.
inline constexpr std::size_t all_with_keys = everything - 1;

/// The context in which a schedule decides how many tokens go on. New members are added only at the end.
struct layer_context {
  layer_id done;       // number of layers that are done, 1 to layers - 1. The answer says how many tokens enter layer `done`. `done`
                       // can be 0, before the first layer, if the scorer needs only positions (token_view)
  layer_id layers;     // number of layers of the model
  std::size_t active;  // number of tokens that took part in the layer just done
  std::size_t known;   // number of tokens of the sequence so far, pruned ones included
  phase step;
};

/// The input of a selector. The session has already left out the tokens that cannot go on. Some tokens are required by the step, the query
/// token among them. The session has set their scores to +inf. In the other scores the session has replaced NaN by -inf, and +inf by the
/// largest finite number. A score of +inf therefore always means "required". The scores are the session's scratch memory. A wrapper of a
/// selector may set more of them to +inf.
struct candidates {
  std::span<float> scores;              // (candidates)
  std::span<const position> positions;  // (candidates), ascending; the last one is the query token
  std::size_t keep;                     // number of tokens to keep: the schedule's answer, at least the number of required tokens
  double required_mass = 0;             // sum of the required tokens' scores that are finite and positive, before the session set them to
                                        // +inf
};

/// The standing of an active token in a selection, before its score is known. Arrays of it can be copied to a device as they are.
enum class candidacy : std::uint32_t {
  open,      // its score decides
  required,  // it stays
  excluded,  // it cannot go on, because its hidden state is gone
};

/// How many candidates a selector keeps, if this number does not depend on their scores.
struct kept_count {
  std::size_t required;   // candidates that stay, whatever the scores
  std::size_t group = 1;  // the other candidates stay or go in groups of this many
  std::size_t page = 1;   // a group is a page: the candidates at the positions p * page to (p + 1) * page - 1

  /// Returns whether a selector can keep so many of `candidates` candidates. Only then may `of` be called.
  bool possible(std::size_t candidates) const { return required <= candidates && group >= 1 && group <= candidates && page >= 1; }

  /// The number of kept candidates, of `candidates` in all, if `keep` are to be kept.
  std::size_t of(std::size_t keep, std::size_t candidates) const {
    if (keep <= required) return required;
    const std::size_t groups = (keep - required + group - 1) / group;
    return groups >= (candidates - required + group - 1) / group ? candidates : required + groups * group;
  }
  friend bool operator==(const kept_count&, const kept_count&) = default;
};

/// The input of an aux store: the hidden states that are stored now, and those of the tokens that were just dropped.
struct stored_rows {
  std::span<const float> scores;        // (rows) each token's score when it was last dropped; +inf if the row must stay for the next layer
  std::span<const position> positions;  // (rows), ascending
  bool embeddings = false;              // the tokens were dropped before layer 0, so the rows are embeddings: keeping them takes no memory
};

}  // namespace v0
}  // namespace lazyprune
