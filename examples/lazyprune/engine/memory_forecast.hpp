// SPDX-License-Identifier: MIT
// Estimates the memory of a run before anything is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "commands/flags.hpp"
#include "models/model_choice.hpp"

namespace lazyprune {
namespace program {

/// Bytes for a dense run. A pruned run needs at most a little more: it stores rows, but keeps fewer keys and values.
struct memory_forecast {
  std::size_t weights;  // as the backend stores them; too low if a layer's gate and up have different quantized types, or if some of
                        // its q, k and v cannot stay quantized
  std::size_t kv;       // keys and values of the prompt and the answer
  std::size_t scratch;  // approximate: the buffers of a step

  std::size_t total() const { return weights + kv + scratch; }
};

/// Returns whether the CPU backend keeps weights of this GGUF type quantized, if no --dtype is given. No value: the type is not quantized.
std::optional<bool> stays_quantized(std::string_view type);

/// Estimates the memory for a prompt of `prompt` tokens. `length`: tokens of prompt and answer together. Throws `error` if the config's
/// numbers are so large that the bytes do not fit into std::size_t.
memory_forecast forecast_memory(const opened_model& model, const backend_flags& flags, std::size_t prompt, std::size_t length);

/// Returns the memory that is left for keys and values after the weights were loaded; nullopt if it is not known.
std::optional<std::uint64_t> memory_for_sequences(const backend_flags& flags, std::size_t weights);

/// Throws `error` (no_memory) if the forecast exceeds the free memory of this process or, on cuda, the whole memory of the GPU. Does
/// nothing if the free memory is not known.
void check_memory(const memory_forecast& forecast, const backend_flags& flags);

}  // namespace program
}  // namespace lazyprune
