// SPDX-License-Identifier: MIT
// The memory that a run will take, told before anything is loaded.
#pragma once

#include <cstddef>

#include "commands/flags.hpp"
#include "models/model_choice.hpp"

namespace lazyprune {
namespace program {

/// In bytes, for a dense run. A pruned one takes hardly more, and keeps fewer keys and values.
struct memory_forecast {
  std::size_t weights;  // as the backend holds them: a file of four bits a weight becomes larger
  std::size_t kv;       // keys and values of the prompt and the answer
  std::size_t scratch;  // about: what the rows of a step are computed in

  std::size_t total() const { return weights + kv + scratch; }
};

/// What a prompt of `prompt` tokens takes, if the text with its answer gets `length` tokens long. Throws `error` where a number is too
/// large.
memory_forecast forecast_memory(const opened_model& model, const backend_flags& flags, std::size_t prompt, std::size_t length);

/// Throws `error` (no_memory) where that is more than this process, or the GPU, may still take. Does nothing where nobody knows.
void check_memory(const memory_forecast& forecast, const backend_flags& flags);

}  // namespace program
}  // namespace lazyprune
