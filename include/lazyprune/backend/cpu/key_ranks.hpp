// SPDX-License-Identifier: MIT
// Which keys a row may look at: slots hold tokens in any order, and a comparison of ranks tells who sees whom.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <lazyprune/backend/cpu/packed_kv.hpp>

namespace lazyprune {
inline namespace v0 {

/// The rank of a slot is the index of its token among the active ones.
class key_ranks {
 public:
  static constexpr std::int32_t inactive = std::numeric_limits<std::int32_t>::max();
  static constexpr std::size_t tile = kernels::tile_outputs;

  void set(std::span<const std::uint32_t> slots, std::size_t blocks) {
    ranks_.assign(blocks * packed_kv::block_slots, inactive);
    for (std::size_t i = 0; i < slots.size(); ++i) ranks_[slots[i]] = static_cast<std::int32_t>(i);
    tiles_.resize(ranks_.size() / tile);
    for (std::size_t t = 0; t < tiles_.size(); ++t) {
      const auto [least, most] = std::ranges::minmax(std::span(ranks_).subspan(t * tile, tile));
      tiles_[t] = {least, most};
    }
  }

  /// (32)
  const std::int32_t* of_tile(std::size_t t) const { return ranks_.data() + t * tile; }

  /// Whether somebody who sees the first `seen` active tokens sees any of the tile, or all of it.
  bool any(std::size_t t, std::int32_t seen) const { return tiles_[t].least < seen; }
  bool all(std::size_t t, std::int32_t seen) const { return tiles_[t].most < seen; }

  /// Whether the tile's tokens follow each other.
  bool in_order(std::size_t t) const {
    return tiles_[t].most - tiles_[t].least == static_cast<std::int32_t>(tile) - 1 && std::is_sorted(of_tile(t), of_tile(t) + tile);
  }

  std::size_t bytes() const { return ranks_.capacity() * sizeof(std::int32_t) + tiles_.capacity() * sizeof(range); }

 private:
  struct range {
    std::int32_t least, most;
  };
  std::vector<std::int32_t> ranks_;  // (slots)
  std::vector<range> tiles_;
};

}  // namespace v0
}  // namespace lazyprune
