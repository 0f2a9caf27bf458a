// SPDX-License-Identifier: MIT
// Turns status codes of the CUDA runtime and cuBLASLt into exceptions of type `error`.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Throws an `error` unless the call succeeded. The message contains `where`, `expected`, and CUDA's name and description of the failure.
/// Clears the runtime's last error, so that the next call does not return it again.
inline void check(cudaError_t answer, std::string_view where, std::string_view expected = "success") {
  if (answer == cudaSuccess) return;
  cudaGetLastError();
  throw error("cuda", where, expected, std::string(cudaGetErrorName(answer)) + ": " + cudaGetErrorString(answer),
              answer == cudaErrorMemoryAllocation ? error_code::no_memory : error_code::io);
}

inline void check(cublasStatus_t answer, std::string_view where) {
  if (answer == CUBLAS_STATUS_SUCCESS) return;
  throw error("cuda", where, "success", std::string("cuBLAS: ") + cublasLtGetStatusName(answer), error_code::io);
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
