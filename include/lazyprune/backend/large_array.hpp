// SPDX-License-Identifier: MIT
// Memory for weights: large arrays that are written once and read from end to end.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace lazyprune {
inline namespace v0 {

/// Uninitialised memory, aligned to a cache line. Arrays of 256 KiB or more use huge pages of 2 MiB if the system has them. With small
/// pages, the system takes longer to provide a page than the program takes to fill it, and products wait for address translation. Arrays of
/// 256 KiB to 4 MiB share blocks of 16 MiB. A block is freed with its last array. Copies of an array share its memory.
class large_array {
 public:
  static constexpr std::size_t page = std::size_t{2} << 20;

  large_array() = default;
  explicit large_array(std::size_t bytes) : data_(bytes ? allocate(bytes) : nullptr), bytes_(bytes) {}

  large_array(const large_array&) = default;
  large_array& operator=(const large_array&) = default;
  large_array(large_array&& other) noexcept : data_(std::move(other.data_)), bytes_(std::exchange(other.bytes_, 0)) {}
  large_array& operator=(large_array&& other) noexcept {
    data_ = std::move(other.data_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  using memory = std::shared_ptr<std::byte>;

  static constexpr std::size_t line = 64, small = page / 8, own_pages = 2 * page, block_bytes = 8 * page;

  static memory allocate(std::size_t bytes) {
    if (bytes < small) return fresh(bytes, line);
    if (bytes >= own_pages) return fresh(bytes, page);
    static shared_block blocks;
    return blocks.take(bytes);
  }

  static memory fresh(std::size_t bytes, std::size_t alignment) {
    const std::align_val_t aligned{alignment};
    const memory data(static_cast<std::byte*>(::operator new(bytes, aligned)),
                      [aligned](std::byte* at) { ::operator delete(at, aligned); });
#ifdef __linux__
    if (alignment == page) ::madvise(data.get(), bytes, MADV_HUGEPAGE);  // a hint: a failure does no harm
#endif
    return data;
  }

  /// Hands out the memory of one block after another. This class has only a weak pointer to the current block, so the block is freed with
  /// its last array.
  class shared_block {
   public:
    memory take(std::size_t bytes) {
      const std::lock_guard lock(mutex_);
      memory block = block_.lock();
      if (!block || block_bytes - used_ < bytes) {
        block = fresh(block_bytes, page);
        block_ = block;
        used_ = 0;
      }
      std::byte* const data = block.get() + used_;
      used_ += (bytes + line - 1) / line * line;
      return memory(std::move(block), data);
    }

   private:
    std::mutex mutex_;
    std::weak_ptr<std::byte> block_;
    std::size_t used_ = 0;
  };

  memory data_;
  std::size_t bytes_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
