// SPDX-License-Identifier: MIT
// What an NVIDIA GPU can do at most, from what it says of itself.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine.hpp"

#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
namespace program {

/// In CUDA's own terms and units.
struct gpu_properties {
  int capability;  // 10 x major + minor
  int multiprocessors;
  int clock_khz;         // at most
  int memory_clock_khz;  // of which each edge moves a bit a line
  int memory_bus_bits;
};

/// Of products with dense weights of this type, and of memory. NVIDIA's "A100 Tensor Core GPU Architecture" and "H100 Tensor Core GPU
/// Architecture" papers say what a multiprocessor does a clock; none for other GPUs, where that differs by product.
inline std::optional<peak_rates> peaks_of(const gpu_properties& gpu, dtype weights) {
  struct rates {
    int capability;
    double bf16, f32;  // floating-point operations a multiprocessor and clock, on tensor cores and off them
  };
  for (const rates& known : {rates{80, 2048, 128}, rates{90, 4096, 256}}) {
    if (gpu.capability != known.capability) continue;
    const bool tensor = weights == dtype::bf16;
    const double clock = 1e3 * gpu.clock_khz;
    return peak_rates{tensor ? "bf16 on tensor cores" : "FFMA", (tensor ? known.bf16 : known.f32) * gpu.multiprocessors * clock,
                      2e3 * gpu.memory_clock_khz * gpu.memory_bus_bits / 8};
  }
  return std::nullopt;
}

}  // namespace program
}  // namespace lazyprune
