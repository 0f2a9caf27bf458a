// SPDX-License-Identifier: MIT
// What one instruction set brings to attention beside its products: the running softmax of a strip of queries over a block of keys
// (FlashAttention, arXiv 2205.14135).
//
// Scores and sums lie in the tiles that the product kernels write: (tiles, rows, 32), a tile `tile_floats` from the next. Of the sixteen
// lanes in which a row's mass is added up, each takes every sixteenth key, so that AVX2 and AVX-512 give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

inline constexpr std::size_t mass_lanes = 16;
inline constexpr float no_score = -std::numeric_limits<float>::infinity();
inline constexpr float weight_limit = -88.03f;  // here e^x is 2^-127, whose bits are those of 0

struct attention_kernel {
  /// Takes in the scores of `tiles` tiles. Of row r, the keys with ranks[k] < seen[r] count (all, where ranks is null; seen has `rows`
  /// numbers all the same) and the scores of the others become -infinity. `largest` (rows) and `mass` (rows, 16) are the row's greatest
  /// score and the sum of its weights so far; fade (rows) is what the sums so far are to be multiplied with, weights (rows, stride) =
  /// exp(score - largest), or 0 where that is less than 2^-126.5.
  void (*soften)(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const std::int32_t* ranks,
                 const std::int32_t* seen, float* largest, float* mass, float* fade, float* weights, std::size_t stride);

  /// Row r of every tile, times by[r].
  void (*scale)(float* sums, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const float* by);

  /// row[i] = exp(row[i] - shift) * by, for row[i] <= shift.
  void (*finish)(float* row, std::size_t count, float shift, float by);
};

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
