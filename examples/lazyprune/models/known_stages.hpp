// SPDX-License-Identifier: MIT
// Stages that the program knows for well-known models. The models' own files have none.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
namespace program {

/// Stages, and the shortest prompt, in tokens, that they were tried on.
struct tried_stages {
  std::string_view stages;
  std::size_t least_tokens;
};

/// Returns the stages for the model with this name in its GGUF file (`general.name`) and this number of layers; nullopt if there are none.
std::optional<tried_stages> known_stages(std::string_view name, layer_id layers);

}  // namespace program
}  // namespace lazyprune
