// SPDX-License-Identifier: MIT
// The engine in plain loops: what the others are held against.
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

/// Computes in float or in double.
std::unique_ptr<engine> load_float_engine(const execution& how, const load_options& options, const weights_source& from);
std::unique_ptr<engine> load_double_engine(const execution& how, const load_options& options, const weights_source& from);

}  // namespace program
}  // namespace lazyprune
