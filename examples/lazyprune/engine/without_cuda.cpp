// SPDX-License-Identifier: MIT
#include "engine/cuda_engine.hpp"

#include <stdexcept>

#include "engine/backend_engines.hpp"

namespace lazyprune {
namespace program {
namespace {

[[noreturn]] void fail() { throw std::logic_error("this program was built without CUDA"); }

}  // namespace

bool built_with_cuda() { return false; }

const gpu& this_gpu() { fail(); }

std::unique_ptr<engine> load_cuda_engine(const execution&, const load_options&, const weights_source&) { fail(); }

}  // namespace program
}  // namespace lazyprune
