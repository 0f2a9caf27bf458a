// SPDX-License-Identifier: MIT
// Vectors of floats, one batch at a time: norms, rotations, sums.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <lazyprune/backend/cpu/batch.hpp>

namespace lazyprune {
inline namespace v0 {
inline namespace LAZYPRUNE_COMPILED_ISA {
namespace simd {

/// A batch, or what is left of one: `padding` stands for what is missing.
inline batch load(const float* at, std::size_t left, float padding = 0.0f) {
  if (left >= batch::size) return batch::load_unaligned(at);
  alignas(batch) float part[batch::size];
  std::fill(std::copy_n(at, left, part), part + batch::size, padding);
  return batch::load_aligned(part);
}

inline void store(const batch& value, float* at, std::size_t left) {
  if (left >= batch::size) return value.store_unaligned(at);
  alignas(batch) float part[batch::size];
  value.store_aligned(part);
  std::copy_n(part, left, at);
}

/// out = x / sqrt(mean(x^2) + epsilon) * weight; out may be x.
inline void rms_norm(const float* x, const float* weight, std::size_t count, double epsilon, float* out) {
  std::array<batch, 4> squares{batch(0.0f), batch(0.0f), batch(0.0f), batch(0.0f)};
  for (std::size_t i = 0, turn = 0; i < count; i += batch::size, ++turn) {
    const batch value = load(x + i, count - i);
    squares[turn % 4] = xsimd::fma(value, value, squares[turn % 4]);
  }
  const double sum = xsimd::hadd((squares[0] + squares[1]) + (squares[2] + squares[3]));
  const batch scale(static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(count) + epsilon)));
  for (std::size_t i = 0; i < count; i += batch::size)
    store(load(x + i, count - i) * scale * load(weight + i, count - i), out + i, count - i);
}

/// The pairs (a[i], b[i]) turned by their angles.
inline void rotate(float* a, float* b, const float* cosines, const float* sines, std::size_t count) {
  for (std::size_t i = 0; i < count; i += batch::size) {
    const std::size_t left = count - i;
    const batch x = load(a + i, left), y = load(b + i, left), cosine = load(cosines + i, left), sine = load(sines + i, left);
    store(x * cosine - y * sine, a + i, left);
    store(y * cosine + x * sine, b + i, left);
  }
}

inline void add(const float* x, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; i += batch::size) store(load(to + i, count - i) + load(x + i, count - i), to + i, count - i);
}

}  // namespace simd
}  // namespace LAZYPRUNE_COMPILED_ISA
}  // namespace v0
}  // namespace lazyprune
