// SPDX-License-Identifier: MIT
// Rows of activations put aside (the Aux Cache's), as float or in half the memory.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <lazyprune/backend/cpu/kernels/convert.hpp>
#include <lazyprune/backend/host.hpp>

namespace lazyprune {
inline namespace v0 {

/// (slots, columns), in blocks of slots: memory grows without copying what is there, and is given back when a block's last row is taken.
class stored_activations {
 public:
  static constexpr std::size_t block_slots = 64;

  explicit stored_activations(std::size_t columns) : columns_(columns) {}

  std::size_t columns() const { return columns_; }
  dtype type() const { return type_; }  // f32 or bf16
  std::size_t bytes() const { return used_ * block_slots * row_bytes(); }

  /// Room for these slots. An empty store takes the type `as`, f32 or bf16; one that is not empty keeps its own.
  void reserve(std::span<const std::uint32_t> slots, dtype as) {
    if (used_ == 0) type_ = as;
    for (const std::uint32_t slot : slots) {
      if (blocks_.size() <= slot / block_slots) blocks_.resize(slot / block_slots + 1);
      block& b = blocks_[slot / block_slots];
      if (b.rows == 0) {
        b.data = aligned_array<std::byte>(block_slots * row_bytes());
        ++used_;
      }
      b.rows |= bit_of(slot);
    }
  }

  /// row (columns). bf16 rounds to nearest, ties to even.
  void write(std::size_t slot, const float* row) {
    if (type_ == dtype::f32) {
      std::memcpy(at(slot), row, row_bytes());
      return;
    }
    kernels::convert(dtype::f32, reinterpret_cast<const std::byte*>(row), columns_, reinterpret_cast<std::uint16_t*>(at(slot)));
  }

  void read(std::size_t slot, float* row) const {
    if (type_ == dtype::f32) {
      std::memcpy(row, at(slot), row_bytes());
      return;
    }
    kernels::convert(dtype::bf16, at(slot), columns_, row);
  }

  /// What these slots hold, each of them something, is not needed any more.
  void release(std::span<const std::uint32_t> slots) {
    for (const std::uint32_t slot : slots) {
      block& b = blocks_[slot / block_slots];
      b.rows &= ~bit_of(slot);
      if (b.rows == 0) {
        b.data = {};
        --used_;
      }
    }
  }

 private:
  struct block {
    aligned_array<std::byte> data;  // (block_slots, columns), where a slot is in use
    std::uint64_t rows = 0;         // a bit for each slot that is
  };
  static_assert(block_slots == 64);

  static std::uint64_t bit_of(std::uint32_t slot) { return std::uint64_t{1} << slot % block_slots; }
  std::size_t row_bytes() const { return columns_ * size_of(type_); }

  std::byte* at(std::size_t slot) {
    assert(blocks_[slot / block_slots].rows & bit_of(static_cast<std::uint32_t>(slot)));
    return blocks_[slot / block_slots].data.data() + slot % block_slots * row_bytes();
  }
  const std::byte* at(std::size_t slot) const { return const_cast<stored_activations*>(this)->at(slot); }

  std::size_t columns_;
  dtype type_ = dtype::f32;
  std::size_t used_ = 0;  // blocks that have memory
  std::vector<block> blocks_;
};

}  // namespace v0
}  // namespace lazyprune
