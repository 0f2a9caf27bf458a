// SPDX-License-Identifier: MIT
#include "engine/backend_engines.hpp"

#include <lazyprune/backend/reference.hpp>

#include "engine/loaded_engine.hpp"

namespace lazyprune {
namespace program {

std::unique_ptr<engine> load_float_engine(const execution& how, const load_options& options, const weights_source& from) {
  return std::make_unique<loaded_engine<reference<float>>>(how, options, from);
}

std::unique_ptr<engine> load_double_engine(const execution& how, const load_options& options, const weights_source& from) {
  return std::make_unique<loaded_engine<reference<double>>>(how, options, from);
}

}  // namespace program
}  // namespace lazyprune
