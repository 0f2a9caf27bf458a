// SPDX-License-Identifier: MIT
// Norms, rotations and sums on any processor.
#pragma once

#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/portable/batch.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

inline void rms_norm(const float* x, const float* weight, std::size_t count, double epsilon, float* out) {
  float lanes[square_lanes] = {};
  for (std::size_t lane = 0; lane < square_lanes; lane += batch::size) {
    batch squares(0.0f);
    for (std::size_t i = lane; i < count; i += square_lanes) {
      const batch value = load_some(x + i, count - i);
      squares = xsimd::fma(value, value, squares);
    }
    squares.store_unaligned(lanes + lane);
  }
  const batch scale(rms_scale(lanes, count, epsilon));
  for (std::size_t i = 0; i < count; i += batch::size)
    store_some(out + i, count - i, load_some(x + i, count - i) * scale * load_some(weight + i, count - i));
}

inline void rotate(float* a, float* b, const float* cosines, const float* sines, std::size_t count) {
  for (std::size_t i = 0; i < count; i += batch::size) {
    const std::size_t left = count - i;
    const batch x = load_some(a + i, left), y = load_some(b + i, left);
    const batch cosine = load_some(cosines + i, left), sine = load_some(sines + i, left);
    store_some(a + i, left, xsimd::fma(-y, sine, x * cosine));
    store_some(b + i, left, xsimd::fma(x, sine, y * cosine));
  }
}

inline void add(const float* x, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; i += batch::size)
    store_some(to + i, count - i, load_some(to + i, count - i) + load_some(x + i, count - i));
}

inline constexpr elementwise_kernel elementwise{.rms_norm = rms_norm, .rotate = rotate, .add = add};

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
