// SPDX-License-Identifier: MIT
// After which layers of a model tokens may be dropped by their attention.
#pragma once

#include <algorithm>
#include <vector>

#include <lazyprune/model/config.hpp>
#include <lazyprune/registry/model_layers.hpp>

namespace lazyprune {
inline namespace v0 {

/// Where layers with a window and others alternate, after the others alone: those with a window would drop whatever is far. Where all
/// layers are of one kind, after any: a window in every layer is what the model is.
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
