// SPDX-License-Identifier: MIT
// One product to measure, and the libraries that compute it.
#pragma once

#include <cstddef>
#include <memory>

namespace bench {

/// out (rows, outputs) = or += x (rows, inputs) w^T, w (outputs, inputs): all contiguous, in f32.
struct product_task {
  const float* x;
  const float* w;
  float* out;
  std::size_t rows, inputs, outputs;
  bool add;
  int threads;
  std::size_t copies;  // of the weight, to be read in turn
};

/// A library's way to compute it, with whatever it prepares beforehand.
class product {
 public:
  virtual ~product() = default;

  /// With that copy of the weight.
  virtual void run(std::size_t copy) = 0;
};

std::unique_ptr<product> make_onednn_product(const product_task& task, bool bf16);

}  // namespace bench
