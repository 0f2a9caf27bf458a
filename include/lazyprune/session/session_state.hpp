// SPDX-License-Identifier: MIT
// The state that a session keeps of its sequence between steps. With it, another process can go on with the sequence.
#pragma once

#include <cstdint>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/session/statistics.hpp>

namespace lazyprune {
inline namespace v0 {

/// The place of a token's hidden state after its last layer.
enum class hidden_state : std::uint8_t {
  none,     // no layer has computed the token, or all have, or it was dropped for good
  stored,   // in the Aux Cache
  waiting,  // in the waiting rows
  lost,     // gone, so no later layer can compute the token
};

struct token_state {
  layer_id frontier = 0;  // the number of layers that have its keys and values
  hidden_state hidden = hidden_state::none;
  bool dropped_for_good = false;  // no later plan contains it
  float score = 0;                // the token's score when it was last dropped
  friend bool operator==(const token_state&, const token_state&) = default;
};

/// The state of a session (step_machine::state). It leaves out the slots of stored and waiting rows. `restore` numbers them anew, in the
/// order of the tokens.
struct session_state {
  layer_id layers = 0;                // of the model
  std::vector<token_state> tokens{};  // (known)
  std::vector<float> memory{};        // (known) if the scorer has memory (every_layer), otherwise empty
  std::size_t queried_to = 0;         // the number of tokens known after the last step with outputs
  bool queried = false;               // whether a step had outputs
  statistics stats{};
  friend bool operator==(const session_state&, const session_state&) = default;
};

}  // namespace v0
}  // namespace lazyprune
