// SPDX-License-Identifier: MIT
// The weights of a model, in a backend. They are compiled apart from what computes with them: who changes a file format compiles no
// transformer.
#pragma once

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/model.hpp>

namespace lazyprune {
inline namespace v0 {
class checkpoint;
class random_source;
}  // namespace v0

namespace program {

/// Where weights come from: a model's files, or numbers made up for a config. It owns none of them.
struct weights_source {
  const checkpoint* files = nullptr;  // null: the numbers below
  const model_config* config = nullptr;
  const random_source* numbers = nullptr;
};

/// Packs the weights. loading.cpp defines it for cpu, reference and faulty_reference, cuda_engine.cpp for cuda. Throws `error` as
/// lazyprune::load_model does.
template <tensor_backend Backend>
model<Backend> load_weights(Backend& backend, const weights_source& from, const load_options& options);

}  // namespace program
}  // namespace lazyprune
