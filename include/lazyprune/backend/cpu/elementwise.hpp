// SPDX-License-Identifier: MIT
// Vectors of floats, one batch at a time: norms, gates, rotations, softmax, dot products.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include <lazyprune/backend/cpu/batch.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA::simd {

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

/// out = silu(gate) * up; out may be either.
inline void gate(const float* gates, const float* ups, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; i += batch::size) {
    const batch g = load(gates + i, count - i);
    store(g / (1.0f + xsimd::exp(-g)) * load(ups + i, count - i), out + i, count - i);
  }
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

inline void scale(float* x, std::size_t count, float by) {
  for (std::size_t i = 0; i < count; i += batch::size) store(load(x + i, count - i) * by, x + i, count - i);
}

inline float largest(const float* x, std::size_t count) {
  constexpr float least = -std::numeric_limits<float>::infinity();
  batch most(least);
  for (std::size_t i = 0; i < count; i += batch::size) most = xsimd::max(most, load(x + i, count - i, least));
  alignas(batch) float lanes[batch::size];
  most.store_aligned(lanes);
  return *std::max_element(lanes, lanes + batch::size);
}

/// x = exp(x - shift). Returns the sum: blocks of it in float, the blocks in double, so that long rows lose nothing.
inline double exp_and_sum(float* x, std::size_t count, float shift) {
  constexpr std::size_t block = 32 * batch::size;
  double total = 0;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t end = std::min(count, first + block);
    batch sum(0.0f);
    for (std::size_t i = first; i < end; i += batch::size) {
      const batch value = xsimd::exp(load(x + i, end - i, -std::numeric_limits<float>::infinity()) - shift);
      store(value, x + i, end - i);
      sum += value;
    }
    total += static_cast<double>(xsimd::hadd(sum));
  }
  return total;
}

/// The dot product of x with each of the rows. A row's result does not depend on the others.
template <std::size_t Rows>
std::array<float, Rows> dots(const std::array<const float*, Rows>& rows, const float* x, std::size_t count) {
  batch even[Rows], odd[Rows];
  for (std::size_t r = 0; r < Rows; ++r) even[r] = odd[r] = batch(0.0f);
  std::size_t i = 0;
  for (; i + 2 * batch::size <= count; i += 2 * batch::size) {
    const batch a = batch::load_unaligned(x + i), b = batch::load_unaligned(x + i + batch::size);
    for (std::size_t r = 0; r < Rows; ++r) {
      even[r] = xsimd::fma(a, batch::load_unaligned(rows[r] + i), even[r]);
      odd[r] = xsimd::fma(b, batch::load_unaligned(rows[r] + i + batch::size), odd[r]);
    }
  }
  for (; i < count; i += batch::size)
    for (std::size_t r = 0; r < Rows; ++r) even[r] = xsimd::fma(load(x + i, count - i), load(rows[r] + i, count - i), even[r]);
  std::array<float, Rows> sums;
  for (std::size_t r = 0; r < Rows; ++r) sums[r] = xsimd::hadd(even[r] + odd[r]);
  return sums;
}

/// to += the sum of the rows, each times its weight.
template <std::size_t Rows>
void add_weighed(const float* weights, const std::array<const float*, Rows>& rows, std::size_t count, float* to) {
  const auto add_at = [&](std::size_t i, std::size_t left) {
    batch sum = load(to + i, left);
    for (std::size_t r = 0; r < Rows; ++r) sum = xsimd::fma(batch(weights[r]), load(rows[r] + i, left), sum);
    store(sum, to + i, left);
  };
  std::size_t i = 0;
  for (; i + batch::size <= count; i += batch::size) add_at(i, batch::size);
  if (i < count) add_at(i, count - i);
}

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA::simd
