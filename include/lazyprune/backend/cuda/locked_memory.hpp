// SPDX-License-Identifier: MIT
// Page-locked host memory. The device copies to and from this memory at the full rate of the link, while the host continues.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <lazyprune/backend/cuda/check.hpp>
#include <lazyprune/backend/cuda/memory.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// `size` bytes of uninitialised page-locked memory. Before you destroy this object, wait for all copies that use its memory.
class locked_memory {
 public:
  locked_memory() = default;
  /// If the allocation fails for lack of memory, throws an `error` (no_memory) that names `what` and the bytes.
  locked_memory(std::size_t size, std::string_view what) : size_(size) {
    check(cudaMallocHost(&data_, size), what, std::to_string(size) + " bytes of page-locked memory");
  }
  locked_memory(locked_memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  locked_memory& operator=(locked_memory other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~locked_memory() {
    if (data_) cudaFreeHost(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Copies numbers from the device to host memory that is not page-locked. Small copies go through a page-locked buffer, which takes a few
/// microseconds. The driver alone takes tens of microseconds for them. Large copies are left to the driver, which splits them itself.
class read_back {
 public:
  static constexpr std::size_t room_bytes = std::size_t{4} << 20;

  void reserve() {
    if (room_.size() == 0) room_ = locked_memory(room_bytes, "read-back");
  }

  /// Copies `rows` rows of `width` bytes and waits for them. Source rows are `from_pitch` bytes apart, destination rows `to_pitch` bytes.
  void copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t rows) {
    if (width == 0 || rows == 0) return;
    const bool small = width * rows <= room_bytes;
    if (small) reserve();
    check(cudaMemcpy2DAsync(small ? room_.data() : to, small ? width : to_pitch, from, from_pitch, width, rows, cudaMemcpyDeviceToHost,
                            stream()),
          "read-back");
    synchronize();
    if (!small) return;
    for (std::size_t r = 0; r < rows; ++r) std::memcpy(static_cast<std::byte*>(to) + r * to_pitch, room_.data() + r * width, width);
  }

 private:
  locked_memory room_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
