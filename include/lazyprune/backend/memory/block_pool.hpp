// SPDX-License-Identifier: MIT
// Blocks of memory that are allocated ahead of their use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <lazyprune/backend/memory/shared_array.hpp>

namespace lazyprune {
inline namespace v0 {

/// Spare blocks of one size. The owner of the pool counts the blocks in use. `reserve` sets how many blocks, used and spare, stay
/// allocated. A copy of a pool is empty.
template <class T, class Memory = aligned_array<T>>
class block_pool {
 public:
  using block = shared_array<T, Memory>;

  block_pool() = default;
  block_pool(const block_pool&) noexcept {}
  block_pool(block_pool&&) noexcept = default;
  block_pool& operator=(block_pool other) noexcept {
    std::swap(held_, other.held_);
    std::swap(blocks_, other.blocks_);
    return *this;
  }

  std::size_t size() const { return blocks_.size(); }

  /// Keeps at least `total` blocks of `size` numbers allocated from now on, including the `in_use` blocks that are in use.
  void reserve(std::size_t total, std::size_t in_use, std::size_t size) {
    blocks_.reserve(total);
    held_ = std::max(held_, total);
    while (in_use + blocks_.size() < held_) blocks_.emplace_back(size);
  }

  /// Returns a block of `size` numbers: a spare block, or a new one if no block is spare.
  block take(std::size_t size) {
    if (blocks_.empty()) return block(size);
    block last = std::move(blocks_.back());
    blocks_.pop_back();
    return last;
  }

  /// Takes back a block. `in_use` is the number of blocks that are still in use. The block becomes a spare, unless enough blocks are
  /// allocated or a copy shares the block.
  void give(block unused, std::size_t in_use) noexcept {
    if (in_use + blocks_.size() < held_ && !unused.shared()) blocks_.push_back(std::move(unused));
  }

 private:
  std::size_t held_ = 0;
  std::vector<block> blocks_;
};

}  // namespace v0
}  // namespace lazyprune
