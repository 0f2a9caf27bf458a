// SPDX-License-Identifier: MIT
// The running softmax on any processor.
#pragma once

#include <algorithm>

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/portable/batch.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

/// e^x for x up to 0.
inline batch weight_of(const batch& x) { return xsimd::exp(x); }

inline float weight_of(float x) {
  float out[batch::size];
  weight_of(batch(x)).store_unaligned(out);
  return out[0];
}

inline void soft_cap(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, float cap) {
  for (std::size_t t = 0; t < tiles; ++t)
    for (float* at = scores + t * tile_floats; at != scores + t * tile_floats + rows * tile_outputs; at += batch::size)
      (xsimd::tanh(batch::load_unaligned(at)) * batch(cap)).store_unaligned(at);
}

/// One row: its scores lie `tile_floats` apart, tile by tile.
inline void soften_row(float* scores, std::size_t tile_floats, std::size_t tiles, const std::int32_t* ranks, const rank_range& seen,
                       float& largest, float* mass, float& fade, float* weights) {
  batch most(no_score);
  for (std::size_t t = 0; t < tiles; ++t) {
    float* const tile = scores + t * tile_floats;
    for (std::size_t k = 0; ranks && k < tile_outputs; ++k)
      if (static_cast<std::uint32_t>(ranks[t * tile_outputs + k] - seen.first) >= static_cast<std::uint32_t>(seen.end - seen.first))
        tile[k] = no_score;
    for (std::size_t k = 0; k < tile_outputs; k += batch::size) most = xsimd::max(most, batch::load_unaligned(tile + k));
  }
  float lanes[batch::size];
  most.store_unaligned(lanes);
  const float before = largest, now = std::max(before, *std::max_element(lanes, lanes + batch::size));
  const float shift = now == no_score ? 0.0f : now, old = weight_of(before - shift);
  largest = now;
  fade = old;
  for (std::size_t lane = 0; lane < mass_lanes; lane += batch::size) {
    batch sum = batch::load_unaligned(mass + lane) * batch(old);
    for (std::size_t t = 0; t < tiles; ++t)
      for (std::size_t k = lane; k < tile_outputs; k += mass_lanes) {
        const batch weight = weight_of(batch::load_unaligned(scores + t * tile_floats + k) - batch(shift));
        sum = sum + weight;
        weight.store_unaligned(weights + t * tile_outputs + k);
      }
    sum.store_unaligned(mass + lane);
  }
}

inline void soften(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const std::int32_t* ranks,
                   const rank_range* seen, float* largest, float* mass, float* fade, float* weights, std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r)
    soften_row(scores + r * tile_outputs, tile_floats, tiles, ranks, seen[r], largest[r], mass + r * mass_lanes, fade[r],
               weights + r * stride);
}

inline void scale(float* sums, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const float* by) {
  for (std::size_t t = 0; t < tiles; ++t)
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < tile_outputs; i += batch::size) {
        float* const at = sums + t * tile_floats + r * tile_outputs + i;
        (batch::load_unaligned(at) * batch(by[r])).store_unaligned(at);
      }
}

inline void finish(float* row, std::size_t count, float shift, float by) {
  for (std::size_t i = 0; i < count; i += batch::size)
    store_some(row + i, count - i, weight_of(load_some(row + i, count - i) - batch(shift)) * batch(by));
}

inline constexpr attention_kernel attention{.soft_cap = soft_cap, .soften = soften, .scale = scale, .finish = finish};

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
