// SPDX-License-Identifier: MIT
// The functions of one instruction set for attention, except the products, which are in product_kernel.hpp. They compute the running
// softmax of a strip of queries over a block of keys (FlashAttention, arXiv 2205.14135).
//
// Scores and sums are in the tiles that the product kernels write: (tiles, rows, 32), with `tile_floats` floats from one tile to the next.
// A row's mass is the sum of its attention weights before they are normalized. It is added up in 16 lanes. Each lane takes every sixteenth
// key, so that AVX2 and AVX-512 give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

inline constexpr std::size_t mass_lanes = 16;
inline constexpr float no_score = -std::numeric_limits<float>::infinity();
inline constexpr float weight_limit = -88.03f;  // here e^x is 2^-127, and the kernels compute 0 for 2^-127
inline constexpr float tanh_limit = 10.0f;      // from here on tanh is 1 in float

/// A range of ranks, from `first` to `end - 1`. The rank of a token is its index among the active tokens.
struct rank_range {
  std::int32_t first, end;

  friend bool operator==(const rank_range&, const rank_range&) = default;
};

/// Tests by one comparison whether a rank is in a range: rank + offset < limit, as signed numbers modulo 2^32. If the range begins at 0,
/// the offset is 0, because no rank is negative.
struct rank_test {
  std::int32_t offset, limit;

  explicit rank_test(const rank_range& range)
      : offset(range.first == 0 ? 0 : static_cast<std::int32_t>(0x8000'0000u - static_cast<std::uint32_t>(range.first))),
        limit(static_cast<std::int32_t>(static_cast<std::uint32_t>(range.end) + static_cast<std::uint32_t>(offset))) {}
};

/// Where `soften` writes attention weights. The weights of row r for the 32 keys of tile t are contiguous, from
/// data + r * row_bytes + t * tile_bytes on.
struct weight_rows {
  std::byte* data;
  std::size_t row_bytes, tile_bytes;
};

/// Scores that `soften` computes between its exponentials, because a processor can do both at once: scores (tiles, rows, 32) = packed
/// queries times keys. The tiles of keys are contiguous. From one tile of scores to the next there are `tile_floats` floats.
struct score_task {
  const std::byte* queries;
  std::size_t rows;
  const std::byte* keys;
  std::size_t tiles, depth;
  float* scores;
  std::size_t tile_floats;
};

/// What `soften` does between two rows on paths that compute no scores then.
struct no_side_work {
  no_side_work(const score_task*, std::size_t) {}
  void after_row() {}
};

struct attention_kernel {
  std::size_t weight_bytes;  // of an attention weight that `soften` writes: 4 for float, 2 for bf16
  std::size_t most_tiles;    // tiles of keys that are added to the running softmax at once, at most; this changes the order of additions
  bool scores_ahead;         // whether `soften` takes a score_task

  /// Replaces each score of the rows by cap * tanh(score).
  void (*soft_cap)(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, float cap);

  /// Adds the scores of `tiles` tiles to the running softmax. Row r sees the keys whose rank is in seen[r]. Ranks are not negative. If
  /// `ranks` is null, every row sees all keys, but `seen` must still have `rows` ranges. Scores of keys that a row does not see become
  /// -infinity. Updates `largest` (rows), the greatest score of each row so far, and `mass` (rows, 16). Writes `fade` (rows), the factors
  /// by which the caller must then scale each row's sums. Writes the weights exp(score - largest). Weights below 2^-126.5, or in bf16 below
  /// 2^-126, become 0. If weights are bf16, they have a relative error of up to 1.1e-4 before they are rounded. The mass is the sum of the
  /// weights before rounding. Also computes the scores of `next`, if it is not null. It must be null unless `scores_ahead` is true. The
  /// scores must not overlap.
  void (*soften)(float* scores, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const std::int32_t* ranks,
                 const rank_range* seen, float* largest, float* mass, float* fade, const weight_rows& weights, const score_task* next);

  /// Multiplies row r of every tile by by[r].
  void (*scale)(float* sums, std::size_t tile_floats, std::size_t tiles, std::size_t rows, const float* by);

  /// row[i] = exp(row[i] - shift) * by. No row[i] may be greater than `shift`.
  void (*exponentiate)(float* row, std::size_t count, float shift, float by);
};

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
