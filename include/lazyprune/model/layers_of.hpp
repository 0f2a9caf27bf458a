// SPDX-License-Identifier: MIT
// After which layers of a model the attention of that layer may prune tokens.
#pragma once

#include <algorithm>
#include <vector>

#include <lazyprune/model/config.hpp>
#include <lazyprune/registry/model_layers.hpp>

namespace lazyprune {
inline namespace v0 {

/// If some layers have a window and others do not, only those without one: a layer with a window would drop every distant token. If all
/// layers have a window, or none has, every layer but the last.
inline model_layers layers_of(const model_config& c) {
  const auto layers = static_cast<layer_id>(c.layers);
  if (std::ranges::all_of(c.windows, [](std::size_t w) { return w > 0; })) return layers;
  std::vector<layer_id> after;
  for (layer_id done = 1; done < layers; ++done)
    if (c.window(done - 1) == 0) after.push_back(done);
  return {layers, std::move(after)};
}

}  // namespace v0
}  // namespace lazyprune
