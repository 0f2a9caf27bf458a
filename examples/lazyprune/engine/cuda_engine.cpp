// SPDX-License-Identifier: MIT
#include "engine/cuda_engine.hpp"

#include <lazyprune/backend/cuda.hpp>

#include "engine/backend_engines.hpp"
#include "engine/cuda_peaks.hpp"
#include "engine/loaded_engine.hpp"
#include "models/loading_definition.hpp"

namespace lazyprune {
namespace program {
namespace {

constexpr int least_capability = 80;

int capability() {
  return 10 * device::attribute_of_device(cudaDevAttrComputeCapabilityMajor) +
         device::attribute_of_device(cudaDevAttrComputeCapabilityMinor);
}

gpu find_gpu() {
  const char* const expected = "a GPU of compute capability 8.0 or more";
  int count = 0;
  const cudaError_t answer = cudaGetDeviceCount(&count);
  if (answer != cudaSuccess || count == 0)
    throw error(
        "--backend cuda", "", expected,
        answer == cudaSuccess ? "none" : "none (" + std::string(cudaGetErrorName(answer)) + ": " + cudaGetErrorString(answer) + ")");
  cudaDeviceProp properties;
  device::check(cudaGetDeviceProperties(&properties, device::current_device()), "device");
  const std::string isa = "sm_" + std::to_string(capability());
  if (capability() < least_capability) throw error("--backend cuda", "", expected, std::string(properties.name) + ", " + isa);
  return {properties.name, properties.totalGlobalMem, isa};
}

class cuda_engine final : public loaded_engine<cuda_backend> {
 public:
  using loaded_engine::loaded_engine;

  int threads() const override { return 1; }
  std::function<void()> waiting() const override { return device::synchronize; }

  /// Computes the rates from the highest clocks that the GPU reports.
  std::optional<peak_rates> peaks() const override {
    return peaks_of({.capability = capability(),
                     .multiprocessors = device::attribute_of_device(cudaDevAttrMultiProcessorCount),
                     .clock_khz = device::attribute_of_device(cudaDevAttrClockRate),
                     .memory_clock_khz = device::attribute_of_device(cudaDevAttrMemoryClockRate),
                     .memory_bus_bits = device::attribute_of_device(cudaDevAttrGlobalMemoryBusWidth)},
                    weight_type());
  }

 protected:
  std::size_t kv_row_bytes_as(dtype type) const override {
    const device::stored_kv row(config().n_kv_heads, config().head_dim);
    return 2 * row.width() * size_of(type);
  }
};

}  // namespace

bool built_with_cuda() { return true; }

const gpu& this_gpu() {
  static const gpu one = find_gpu();
  return one;
}

template model<cuda_backend> load_weights(cuda_backend&, const weights_source&, const load_options&);

std::unique_ptr<engine> load_cuda_engine(const execution& how, const load_options& options, const weights_source& from) {
  return std::make_unique<cuda_engine>(how, options, from);
}

}  // namespace program
}  // namespace lazyprune
