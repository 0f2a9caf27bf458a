// SPDX-License-Identifier: MIT
// Memory for weights: much of it, written once, read from end to end.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <memory>
#include <new>

namespace lazyprune {
inline namespace v0 {

/// Uninitialised memory on a cache line's boundary. From some MB on it comes in pages of 2 MiB where the system has them: the first touch
/// of small ones, one at a time, takes longer than writing them, and products would wait for their addresses.
class large_array {
 public:
  large_array() = default;
  explicit large_array(std::size_t bytes) : data_(bytes ? allocate(bytes) : nullptr, release{alignment_of(bytes)}), bytes_(bytes) {}

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t page = std::size_t{2} << 20;

  struct release {
    std::align_val_t alignment{};
    void operator()(std::byte* data) const { ::operator delete(data, alignment); }
  };

  static std::align_val_t alignment_of(std::size_t bytes) { return std::align_val_t{bytes < 2 * page ? 64 : page}; }

  static std::byte* allocate(std::size_t bytes) {
    void* data = ::operator new(bytes, alignment_of(bytes));
#ifdef __linux__
    if (bytes >= 2 * page) ::madvise(data, bytes, MADV_HUGEPAGE);  // a wish: nothing to do where it is not granted
#endif
    return static_cast<std::byte*>(data);
  }

  std::unique_ptr<std::byte[], release> data_{nullptr, release{}};
  std::size_t bytes_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
