// SPDX-License-Identifier: MIT
// Stages that were found for well-known models, whose own files say none.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
namespace program {

/// Stages, and how many tokens a text needs for them: nobody tried them on shorter ones.
struct tried_stages {
  std::string_view stages;
  std::size_t least_tokens;
};

/// The stages for the model that GGUF files call so (`general.name`) and that has so many layers; none where nobody searched it.
std::optional<tried_stages> known_stages(std::string_view name, layer_id layers);

}  // namespace program
}  // namespace lazyprune
