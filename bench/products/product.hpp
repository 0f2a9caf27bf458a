// SPDX-License-Identifier: MIT
// One product to measure, and the libraries that compute it.
#pragma once

#include <cstddef>
#include <memory>

namespace bench {

/// The product out (rows, outputs) = x (rows, inputs) w^T with w (outputs, inputs). With `add`, the product is added to `out` instead. All
/// matrices are contiguous and in f32.
struct product_task {
  const float* x;
  const float* w;
  float* out;
  std::size_t rows, inputs, outputs;
  bool add;
  int threads;
  std::size_t copies;  // the number of copies of the weight, which runs read in turn
};

/// A library that computes the product. The constructor does all work that need not be timed, like packing the weight.
class product {
 public:
  virtual ~product() = default;

  /// Computes the product with copy number `copy` of the weight.
  virtual void run(std::size_t copy) = 0;

  /// Writes the last results to `out`, if `run` leaves them elsewhere. This is not timed.
  virtual void show() {}
};

std::unique_ptr<product> make_onednn_product(const product_task& task, bool bf16);

}  // namespace bench
