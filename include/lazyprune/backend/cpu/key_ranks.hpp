// SPDX-License-Identifier: MIT
// Tells which keys a row may see. Slots hold tokens in any order, so attention compares the range of tokens that a row sees with the rank
// of each slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/packed_kv.hpp>

namespace lazyprune {
inline namespace v0 {

/// The rank of a slot is the index of its token among the active tokens. The object holds the ranks of whole blocks: from the block of the
/// first slot that `set` was asked for, to the block of the last one.
class key_ranks {
 public:
  using rank_range = kernels::rank_range;

  static constexpr std::int32_t inactive = std::numeric_limits<std::int32_t>::max();
  static constexpr std::size_t tile = kernels::tile_outputs;

  /// Sets the ranks of the active tokens in `asked_for`, which has at least one token. `slots` are the slots of all active tokens.
  void set(std::span<const std::uint32_t> slots, const rank_range& asked_for) {
    std::uint32_t first = slots[static_cast<std::size_t>(asked_for.first)], last = first;
    for (std::int32_t i = asked_for.first; i < asked_for.end; ++i) {
      first = std::min(first, slots[static_cast<std::size_t>(i)]);
      last = std::max(last, slots[static_cast<std::size_t>(i)]);
    }
    first_block_ = first / packed_kv::block_slots;
    end_block_ = last / packed_kv::block_slots + 1;
    const std::size_t before = first_block_ * packed_kv::block_slots;
    ranks_.assign((end_block_ - first_block_) * packed_kv::block_slots, inactive);
    for (std::int32_t i = asked_for.first; i < asked_for.end; ++i) ranks_[slots[static_cast<std::size_t>(i)] - before] = i;
    tiles_.resize(ranks_.size() / tile);
    for (std::size_t t = 0; t < tiles_.size(); ++t) {
      const std::int32_t* const ranks = ranks_.data() + t * tile;
      std::int32_t least = inactive, most = -1, most_active = -1;  // locals, so that they stay in registers
      for (std::size_t i = 0; i < tile; ++i) {
        least = std::min(least, ranks[i]);
        most = std::max(most, ranks[i]);
        most_active = std::max(most_active, ranks[i] == inactive ? -1 : ranks[i]);
      }
      tiles_[t] = {least, most, most_active};
    }
  }

  std::size_t first_block() const { return first_block_; }
  std::size_t end_block() const { return end_block_; }

  /// Returns the ranks of the tile's slots (32).
  const std::int32_t* of_tile(std::size_t t) const { return ranks_.data() + (t - first_tile()) * tile; }

  /// If `any` is false, the tile has no token in `seen`. If it is true, the tile may have one. `all` is true if all slots of the tile have
  /// a token in `seen`.
  bool any(std::size_t t, const rank_range& seen) const { return of(t).least < seen.end && of(t).most_active >= seen.first; }
  bool all(std::size_t t, const rank_range& seen) const { return of(t).most < seen.end && of(t).least >= seen.first; }

  /// Returns the smallest range with the ranks of all active tokens of the tile. If there are none, `first` is not less than `end`.
  rank_range range_of(std::size_t t) const { return {of(t).least, of(t).most_active + 1}; }

  /// Returns true if the tile has 32 successive active tokens, in their order.
  bool in_order(std::size_t t) const {
    return of(t).most - of(t).least == static_cast<std::int32_t>(tile) - 1 && std::is_sorted(of_tile(t), of_tile(t) + tile);
  }

  std::size_t bytes() const { return ranks_.capacity() * sizeof(std::int32_t) + tiles_.capacity() * sizeof(tile_ranks); }

 private:
  struct tile_ranks {
    std::int32_t least, most, most_active;
  };

  std::size_t first_tile() const { return first_block_ * packed_kv::block_tiles; }
  const tile_ranks& of(std::size_t t) const { return tiles_[t - first_tile()]; }

  std::size_t first_block_ = 0, end_block_ = 0;
  std::vector<std::int32_t> ranks_;  // (slots of these blocks)
  std::vector<tile_ranks> tiles_;
};

}  // namespace v0
}  // namespace lazyprune
