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
inline constexpr float tanh_limit = 10.0f;      // from here on tanh is 1 in float

/// Tokens by their index among the active ones: `first` to `end - 1`.
struct rank_range {
  std::int32_t first, end;

  friend bool operator==(const rank_range&, const rank_range&) = default;
};

/// rank + offset < limit, modulo 2^32 and with signs, holds for the ranks in a range and for no other: one comparison tells. The offset of
/// a range that begins at 0 is 0, since no rank is negative.
struct rank_test {
  std::int32_t offset, limit;

  explicit rank_test(const rank_range& range)
      : offset(range.first == 0 ? 0 : static_cast<std::int32_t>(0x8000'0000u - static_cast<std::uint32_t>(range.first))),
        limit(static_cast<std::int32_t>(static_cast<std::uint32_t>(range.end) + static_cast<std::uint32_t>(offset))) {}
};

struct attention_kernel {
  /// Rows of scores become cap * tanh(score).
  void (*soft_cap)(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, float cap);

  /// Takes in the scores of `tiles` tiles. Of row r, the keys whose rank, none of them negative, is in seen[r] count (all, where ranks is
  /// null; seen has `rows` ranges all the same) and the scores of the others become -infinity. `largest` (rows) and `mass` (rows, 16) are
  /// the row's greatest score and the sum of its weights so far; fade (rows) is what the sums so far are to be multiplied with, weights
  /// (rows, stride) = exp(score - largest), or 0 where that is less than 2^-126.5.
  void (*soften)(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const std::int32_t* ranks,
                 const rank_range* seen, float* largest, float* mass, float* fade, float* weights, std::size_t stride);

  /// Row r of every tile, times by[r].
  void (*scale)(float* sums, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const float* by);

  /// row[i] = exp(row[i] - shift) * by, for row[i] <= shift.
  void (*finish)(float* row, std::size_t count, float shift, float by);
};

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
