// SPDX-License-Identifier: MIT
// Loads the weights of a model into a backend. The file formats are compiled apart from the transformer, so after a change of a format
// the transformer is not compiled again.
#pragma once

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/model.hpp>

namespace lazyprune {
inline namespace v0 {
class checkpoint;
class random_source;
}  // namespace v0

namespace program {

/// The source of weights: a model's files, or random numbers for a config. The struct does not own what its pointers point to.
struct weights_source {
  const checkpoint* files = nullptr;  // null: use `config` and `numbers`
  const model_config* config = nullptr;
  const random_source* numbers = nullptr;
};

/// Loads and packs the weights. loading.cpp instantiates this template for cpu, reference and faulty_reference, and cuda_engine.cpp for
/// cuda. Throws `error` as lazyprune::load_model does.
template <tensor_backend Backend>
model<Backend> load_weights(Backend& backend, const weights_source& from, const load_options& options);

}  // namespace program
}  // namespace lazyprune
