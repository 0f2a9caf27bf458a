// SPDX-License-Identifier: MIT
// Rows by slot, in blocks that copies share until one of them writes.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/backend/memory/block_pool.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows of `columns` numbers, one row for each slot. Memory grows in blocks, and rows never move. A block is freed when its last
/// slot in use is released, unless `hold` keeps the block.
template <class T, class Memory = aligned_array<T>>
class slot_blocks {
 public:
  static constexpr std::size_t block_slots = 64;

  explicit slot_blocks(std::size_t columns) : columns_(columns) {}

  std::size_t columns() const { return columns_; }
  std::size_t size() const { return size_; }  // slots in use
  std::size_t bytes() const { return (used_ + spare_.size()) * block_numbers() * sizeof(T); }

  /// Allocates memory for the slots below `count`. The memory stays allocated even if no slot is in use.
  void hold(std::size_t count) { spare_.reserve((count + block_slots - 1) / block_slots, used_, block_numbers()); }

  /// Marks these slots as in use, and makes room for them. If a copy shares their blocks, this object gets blocks of its own. The rows of
  /// the slots can then be written.
  void reserve(std::span<const std::uint32_t> slots) {
    for (const std::uint32_t slot : slots) {
      if (blocks_.size() <= slot / block_slots) blocks_.resize(slot / block_slots + 1);
      block& b = blocks_[slot / block_slots];
      if (b.slots == 0) {
        b.data = spare_.take(block_numbers());
        ++used_;
      }
      b.data.own();
      size_ += (b.slots & bit_of(slot)) == 0;
      b.slots |= bit_of(slot);
    }
  }

  /// Returns the row of a slot (columns) for writing. Call `reserve` for the slot first. Call it again after this object was copied,
  /// because the copy shares the blocks until then.
  T* row(std::size_t slot) { return const_cast<T*>(std::as_const(*this).row(slot)); }
  /// Returns the row of a slot (columns). The slot must be in use.
  const T* row(std::size_t slot) const {
    assert(blocks_[slot / block_slots].slots & bit_of(slot));
    return blocks_[slot / block_slots].data.data() + slot % block_slots * columns_;
  }

  /// Frees these slots. Each of them must be in use.
  void release(std::span<const std::uint32_t> slots) noexcept {
    for (const std::uint32_t slot : slots) {
      block& b = blocks_[slot / block_slots];
      assert(b.slots & bit_of(slot));
      b.slots &= ~bit_of(slot);
      --size_;
      free_if_unused(b);
    }
  }

  /// Calls visit(keep). `visit` must call keep(slot) once for each slot that stays. These slots must be in use. All others are freed.
  template <class Visit>
  void retain(Visit&& visit) noexcept {
    size_ = 0;
    for (block& b : blocks_) b.slots = 0;
    visit([this](std::uint32_t slot) {
      ++size_;
      blocks_[slot / block_slots].slots |= bit_of(slot);
    });
    for (block& b : blocks_) free_if_unused(b);
  }

 private:
  struct block {
    shared_array<T, Memory> data;  // (block_slots, columns), empty if no slot is in use
    std::uint64_t slots = 0;       // a bit for each slot in use
  };
  static_assert(block_slots == 64);

  static std::uint64_t bit_of(std::size_t slot) { return std::uint64_t{1} << slot % block_slots; }
  std::size_t block_numbers() const { return block_slots * columns_; }

  void free_if_unused(block& b) noexcept {
    if (b.slots != 0 || b.data.bytes() == 0) return;
    spare_.give(std::exchange(b.data, {}), --used_);
  }

  std::size_t columns_;
  std::size_t size_ = 0;
  std::size_t used_ = 0;  // blocks that have memory
  std::vector<block> blocks_;
  block_pool<T, Memory> spare_;
};

}  // namespace v0
}  // namespace lazyprune
