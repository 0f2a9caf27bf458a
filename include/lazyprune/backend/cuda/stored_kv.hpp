// SPDX-License-Identifier: MIT
// The KV cache of one layer on the device, in blocks of slots. Memory grows by blocks. Copies of a cache share a block until one of them
// writes to it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/memory/block_pool.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// The KV cache of one layer. A block is (2, block_slots, kv_heads, pitch): keys, then values. Zeros pad each head from head_dim to `pitch`
/// numbers, so that kernels can read 16 bytes at a time.
class stored_kv {
 public:
  static constexpr std::size_t block_slots = 256;

  /// `type`: f32 or bf16.
  stored_kv(std::size_t kv_heads, std::size_t head_dim, dtype type = dtype::f32) : kv_heads_(kv_heads), head_dim_(head_dim), type_(type) {}

  std::size_t size() const { return size_; }  // slots
  std::size_t kv_heads() const { return kv_heads_; }
  std::size_t head_dim() const { return head_dim_; }
  std::size_t pitch() const { return (head_dim_ + 7) / 8 * 8; }
  std::size_t width() const { return kv_heads_ * pitch(); }  // numbers of a slot's key, and of its value
  dtype type() const { return type_; }                       // f32 or bf16
  std::size_t bytes() const { return (blocks_.size() + spare_.size()) * block_bytes(); }

  /// Forgets the slots from `size` on and keeps the memory.
  void truncate(std::size_t size) noexcept { size_ = std::min(size_, size); }

  /// Allocates memory for the slots below `slots`. An empty cache takes the type `as`.
  void reserve(std::size_t slots, dtype as) {
    take_type(as);
    spare_.reserve((slots + block_slots - 1) / block_slots, blocks_.size(), block_bytes());
  }

  /// Makes room for these slots, so that they can be written. If the cache is empty, it takes the type `as`, f32 or bf16. Otherwise it
  /// keeps its type.
  void reserve(std::span<const std::uint32_t> slots, dtype as) {
    take_type(as);
    for (const std::uint32_t slot : slots) {
      while (blocks_.size() <= slot / block_slots) blocks_.push_back(spare_.take(block_bytes()));
      size_ = std::max<std::size_t>(size_, slot + 1);
      blocks_[slot / block_slots].own();
    }
  }

  /// Puts the device addresses of the blocks into `room` and returns them. Every block may be read. A block may be written only if
  /// `reserve` was called for one of its slots since the last copy of the cache was made.
  std::span<const void* const> addresses(std::vector<const void*>& room) const {
    room.clear();
    for (const auto& block : blocks_) room.push_back(block.data());
    return room;
  }

 private:
  using memory = array<std::byte, purpose::keys_and_values>;

  void take_type(dtype as) {
    if (size_ > 0 || as == type_) return;
    type_ = as;
    blocks_.clear();
    spare_ = {};
  }
  std::size_t block_bytes() const { return 2 * block_slots * width() * size_of(type_); }

  std::size_t kv_heads_, head_dim_;
  std::size_t size_ = 0;
  dtype type_;
  std::vector<shared_array<std::byte, memory>> blocks_;
  block_pool<std::byte, memory> spare_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
