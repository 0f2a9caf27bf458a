// SPDX-License-Identifier: MIT
// Defines load_weights of loading.hpp. Only the files that instantiate load_weights for a backend include this header.
#pragma once

#include "models/loading.hpp"

#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/model/random_source.hpp>

namespace lazyprune {
namespace program {

template <tensor_backend Backend>
model<Backend> load_weights(Backend& backend, const weights_source& from, const load_options& options) {
  if (from.files) return load_model(backend, *from.files, options);
  return load_model(backend, *from.config, *from.numbers, options);
}

}  // namespace program
}  // namespace lazyprune
