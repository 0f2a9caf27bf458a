// SPDX-License-Identifier: MIT
// Stages that were found for well-known models, whose own files say none.
#pragma once

#include <optional>
#include <string_view>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
namespace program {

/// The stages for the model that GGUF files call so (`general.name`) and that has so many layers; none where nobody searched it.
std::optional<std::string_view> known_stages(std::string_view name, layer_id layers);

}  // namespace program
}  // namespace lazyprune
