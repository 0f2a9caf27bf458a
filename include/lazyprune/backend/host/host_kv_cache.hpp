// SPDX-License-Identifier: MIT
// The KV cache of one layer in host memory. Copies share its blocks until one of them writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <lazyprune/backend/memory/block_pool.hpp>

namespace lazyprune {
inline namespace v0 {

/// Keys and values by slot, in blocks of slots.
template <class T>
class host_kv_cache {
 public:
  static constexpr std::size_t block_slots = 256;

  host_kv_cache(std::size_t kv_heads, std::size_t head_dim) : width_(kv_heads * head_dim) {}

  std::size_t size() const { return size_; }    // slots
  std::size_t width() const { return width_; }  // kv_heads * head_dim
  std::size_t bytes() const { return (blocks_.size() + spare_.size()) * block_numbers() * sizeof(T); }

  /// Allocates memory for the slots below `slots`.
  void reserve(std::size_t slots) { spare_.reserve((slots + block_slots - 1) / block_slots, blocks_.size(), block_numbers()); }

  /// Forgets the slots from `size` on and keeps the memory.
  void truncate(std::size_t size) noexcept { size_ = std::min(size_, size); }

  /// Returns the key of a slot (kv_heads * head_dim). The keys of a block lie one after another, and so do the values.
  const T* key(std::size_t slot) const { return blocks_[slot / block_slots].data() + slot % block_slots * width_; }
  const T* value(std::size_t slot) const { return key(slot) + block_slots * width_; }

  /// Writes `key` and `value`, (width) each. If `slot` is past the end, the cache grows to include it.
  void put(std::size_t slot, const T* key, const T* value) {
    while (blocks_.size() <= slot / block_slots) blocks_.push_back(spare_.take(block_numbers()));
    size_ = std::max(size_, slot + 1);
    T* const at = blocks_[slot / block_slots].own() + slot % block_slots * width_;
    std::copy_n(key, width_, at);
    std::copy_n(value, width_, at + block_slots * width_);
  }

 private:
  std::size_t block_numbers() const { return 2 * block_slots * width_; }

  std::size_t width_;
  std::size_t size_ = 0;
  std::vector<shared_array<T>> blocks_;  // (2, block_slots, width): keys, then values
  block_pool<T> spare_;
};

}  // namespace v0
}  // namespace lazyprune
