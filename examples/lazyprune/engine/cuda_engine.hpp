// SPDX-License-Identifier: MIT
// The GPU that the CUDA engine uses. nvcc compiles cuda_engine.cpp if the program is built with CUDA; otherwise without_cuda.cpp replaces
// it.
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

/// Returns CUDA's current device, the first one in CUDA_VISIBLE_DEVICES. Throws `error` if there is no GPU or the kernels cannot run on it.
const gpu& this_gpu();

}  // namespace program
}  // namespace lazyprune
