// SPDX-License-Identifier: MIT
// The engine on an NVIDIA GPU: cuda_engine.cpp, which nvcc compiles where the program is built with CUDA; else without_cuda.cpp stands in.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine/engine.hpp"

namespace lazyprune {
inline namespace v0 {
struct execution;
struct load_options;
}  // namespace v0

namespace program {

struct weights_source;

bool built_with_cuda();

struct gpu {
  std::string name;
  std::size_t memory;  // bytes
  std::string isa;     // "sm_90"
};

/// The one that CUDA chooses: the first that CUDA_VISIBLE_DEVICES leaves. Throws `error` where there is none that the kernels can run on.
const gpu& this_gpu();

std::unique_ptr<engine> load_cuda_engine(const execution& how, const load_options& options, const weights_source& from);

}  // namespace program
}  // namespace lazyprune
