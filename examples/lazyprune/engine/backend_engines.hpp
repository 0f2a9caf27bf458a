// SPDX-License-Identifier: MIT
// Loads the engine of each backend. Each backend is compiled in its own file: cpu_engine.cpp, reference_engine.cpp, and cuda_engine.cpp or
// without_cuda.cpp.
#pragma once

#include <memory>

#include "engine/engine.hpp"

namespace lazyprune {
inline namespace v0 {
struct execution;
struct load_options;
}  // namespace v0

namespace program {

struct weights_source;

std::unique_ptr<engine> load_cpu_engine(const execution& how, const load_options& options, const weights_source& from);
std::unique_ptr<engine> load_cuda_engine(const execution& how, const load_options& options, const weights_source& from);

/// The reference backend, in float or in double.
std::unique_ptr<engine> load_float_engine(const execution& how, const load_options& options, const weights_source& from);
std::unique_ptr<engine> load_double_engine(const execution& how, const load_options& options, const weights_source& from);

}  // namespace program
}  // namespace lazyprune
