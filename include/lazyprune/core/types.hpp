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

/// The context in which a schedule decides how many tokens go on. New members are added only at the end.
struct layer_context {
  layer_id done;       // layers that are done: the answer decides which tokens enter layer `done`. 1..layers-1; also 0,
                       // before the first layer, if the scorer needs only the positions (token_view)
  layer_id layers;     // layers of the model
  std::size_t active;  // tokens that took part in the layer just done
  std::size_t known;   // tokens of the sequence so far, pruned ones included
  phase step;
};

/// The input of a selector. The session has already left out the tokens that cannot go on. It has set the scores of the tokens that the
/// step requires to +inf. The query token is one of them. In all other scores it has replaced NaN by -inf, and +inf by the largest finite
/// number. A score of +inf therefore always means "required". The scores are the session's scratch memory. A wrapper of a selector may set
/// more of them to +inf.
struct candidates {
  std::span<float> scores;              // (candidates)
  std::span<const position> positions;  // (candidates), ascending; the last one is the query token
  std::size_t keep;                     // number of tokens that the schedule wants to keep, 1..candidates
  float required_mass = 0;              // sum of the scores that the required tokens had before they became +inf
};

/// The input of an aux store: the hidden states that are stored now, and those that were just dropped.
struct stored_rows {
  std::span<const float> scores;        // (rows) each token's score when it was last dropped; +inf: the row is read next and must stay
  std::span<const position> positions;  // (rows), ascending
  bool embeddings = false;              // the rows were dropped before layer 0; keeping them takes no memory
};

}  // namespace v0
}  // namespace lazyprune
