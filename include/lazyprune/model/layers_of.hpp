// SPDX-License-Identifier: MIT
// The layers of a model after which tokens may be pruned by the attention of the layer just done.
#pragma once

#include <algorithm>
#include <vector>

#include <lazyprune/model/config.hpp>
#include <lazyprune/registry/model_layers.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns the layers after which such pruning is possible. The last layer is never one of them. If only some layers have a sliding window,
/// the layers with a window are left out, because pruning by their attention would drop every distant token.
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
