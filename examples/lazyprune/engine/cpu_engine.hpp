// SPDX-License-Identifier: MIT
// The engine on the processor.
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

}  // namespace program
}  // namespace lazyprune
