// SPDX-License-Identifier: MIT
// The GPU of the engine for CUDA: cuda_engine.cpp, which nvcc compiles where the program is built with CUDA; else without_cuda.cpp stands
// in.
#pragma once

#include <cstddef>
#include <string>

namespace lazyprune {
namespace program {

bool built_with_cuda();

struct gpu {
  std::string name;
  std::size_t memory;  // bytes
  std::string isa;     // "sm_90"
};

/// The one that CUDA chooses: the first that CUDA_VISIBLE_DEVICES leaves. Throws `error` where there is none that the kernels can run on.
const gpu& this_gpu();

}  // namespace program
}  // namespace lazyprune
