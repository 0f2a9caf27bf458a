// SPDX-License-Identifier: MIT
// The words that every floor speaks: layers, token positions, and what schedules, selectors and stores decide on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lazyprune {
inline namespace v0 {

using layer_id = std::uint32_t;
using position = std::uint32_t;  // a token's place in its sequence, from 0; it never changes, and RoPE always uses it
using token_id = std::uint32_t;  // an entry of the vocabulary

enum class phase : std::uint8_t { prefill, decode };

/// What a schedule answers where it does not prune.
inline constexpr std::size_t everything = static_cast<std::size_t>(-1);

/// What a schedule knows when it is asked how many tokens go on. It grows at its end only.
struct layer_context {
  layer_id done;       // layers that are done: the answer decides who enters layer `done`. 1..layers-1; also 0, before the
                       // first layer, where the scorer needs no more than the positions (token_view)
  layer_id layers;     // layers of the model
  std::size_t active;  // tokens that took part in the layer just done
  std::size_t known;   // tokens of the sequence so far, pruned ones included
  phase step;
};

/// What a selector chooses from. The session has already left out the tokens that cannot go on. It has set the tokens that the step
/// requires to +inf, the query token among them. For every other token NaN has become -inf, and a scorer's own +inf the largest finite
/// number, so that a score of +inf means "required" and nothing else. The scores are the session's scratch: a decorator may raise more of
/// them to +inf.
struct candidates {
  std::span<float> scores;              // (candidates)
  std::span<const position> positions;  // (candidates), ascending; the last one is the query token
  std::size_t keep;                     // tokens the schedule wants to keep, 1..candidates
  float required_mass = 0;              // sum of the scores that the required tokens (now +inf) had
};

/// What an aux store chooses from: the hidden states that are stored now and those that have just been dropped.
struct stored_rows {
  std::span<const float> scores;        // (rows) the score each had when it was last dropped; +inf: about to be read, must stay
  std::span<const position> positions;  // (rows), ascending
  bool embeddings = false;              // the rows were dropped before layer 0: keeping them takes no memory
};

}  // namespace v0
}  // namespace lazyprune
