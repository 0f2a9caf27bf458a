// SPDX-License-Identifier: MIT
// Computes the peak rates of an NVIDIA GPU from the properties that it reports.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine.hpp"

#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
namespace program {

/// The device attributes, in CUDA's units.
struct gpu_properties {
  int capability;  // 10 x major + minor
  int multiprocessors;
  int clock_khz;         // highest
  int memory_clock_khz;  // highest; each line of the bus moves two bits per cycle
  int memory_bus_bits;
};

/// Returns the peak rates of matrix products with weights of this type (dense, not sparse), and of memory reads. The operations per
/// multiprocessor and clock cycle are from NVIDIA's papers "A100 Tensor Core GPU Architecture" and "H100 Tensor Core GPU Architecture".
/// Returns nullopt if the GPU's capability is neither 8.0 nor 9.0, as in these papers: GPUs of another capability do not all do the same
/// number of operations per cycle.
inline std::optional<peak_rates> peaks_of(const gpu_properties& gpu, dtype weights) {
  struct rates {
    int capability;
    double bf16, f32;  // floating-point operations per multiprocessor and clock cycle: bf16 on tensor cores, f32 without them
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
