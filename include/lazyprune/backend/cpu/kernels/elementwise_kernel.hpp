// SPDX-License-Identifier: MIT
// The functions of one instruction set for vectors of floats: norms, RoPE, sums.
//
// All kernels give the same bits, except the portable one, which may lack a fused multiply-add. The squares of a norm are added up in 32
// lanes, and each lane takes every 32nd number. The code fuses multiply-adds explicitly and does not leave this to the compiler.
#pragma once

#include <cmath>
#include <cstddef>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

struct elementwise_kernel {
  /// out = x / sqrt(mean(x^2) + epsilon) * weight, for `count` numbers. `out` may be x.
  void (*rms_norm)(const float* x, const float* weight, std::size_t count, double epsilon, float* out);

  /// Rotates each pair (a[i], b[i]) by its angle: (a, b) becomes (a cos - b sin, b cos + a sin). In each sum, the product with the cosine
  /// is rounded. The product with the sine is fused with the addition.
  void (*rotate)(float* a, float* b, const float* cosines, const float* sines, std::size_t count);

  /// to += x, for `count` numbers.
  void (*add)(const float* x, std::size_t count, float* to);
};

inline constexpr std::size_t square_lanes = 32;

/// Returns 1 / sqrt(mean of squares + epsilon) from the lanes' sums of squares.
inline float rms_scale(const float (&lanes)[square_lanes], std::size_t count, double epsilon) {
  float eight[8];
  for (std::size_t i = 0; i < 8; ++i) eight[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 16] + lanes[i + 24]);
  const float sum = ((eight[0] + eight[4]) + (eight[1] + eight[5])) + ((eight[2] + eight[6]) + (eight[3] + eight[7]));
  return static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(count) + epsilon));
}

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
