// SPDX-License-Identifier: MIT
// The upload of weights to the device. Host threads pack rows into one page-locked buffer while the device copies the other buffer.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <thread>
#include <vector>

#include <lazyprune/backend/cuda/check.hpp>
#include <lazyprune/backend/cuda/locked_memory.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/machine_limits.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

class weight_upload {
 public:
  /// `threads` is the number of threads that pack rows; 0 stands for usable_processors().
  explicit weight_upload(int threads = 0)
      : threads_(threads > 0 ? static_cast<std::size_t>(threads) : static_cast<std::size_t>(usable_processors())) {}

  /// Writes `rows` rows of `row_bytes` bytes each to the device address `to`, and waits for them. pack(first, last, out) must write the
  /// rows [first, last) to `out`, without gaps. Several threads call pack at once.
  template <class Pack>
  void send(std::byte* to, std::size_t rows, std::size_t row_bytes, const Pack& pack) {
    if (rows == 0 || row_bytes == 0) return;
    const std::size_t at_a_time = std::min(rows, std::max<std::size_t>(1, buffer_bytes / row_bytes));
    std::size_t now = 0;
    for (std::size_t first = 0; first < rows; first += at_a_time, now = 1 - now) {
      const std::size_t last = std::min(rows, first + at_a_time);
      locked_memory& buffer = buffers_[now];
      if (buffer.size() < at_a_time * row_bytes) buffer = locked_memory(std::max(buffer_bytes, row_bytes), "weights");
      pack_rows(first, last, row_bytes, buffer.data(), pack);
      synchronize();  // wait for the copy of the other buffer, which ran while this buffer was packed
      check(cudaMemcpyAsync(to + first * row_bytes, buffer.data(), (last - first) * row_bytes, cudaMemcpyHostToDevice, stream()),
            "weights");
    }
    synchronize();
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{16} << 20;
  static constexpr std::size_t worth_a_thread = std::size_t{256} << 10;  // bytes that a thread packs, at least

  template <class Pack>
  void pack_rows(std::size_t first, std::size_t last, std::size_t row_bytes, std::byte* out, const Pack& pack) const {
    const std::size_t rows = last - first, parts = std::clamp<std::size_t>(rows * row_bytes / worth_a_thread, 1, std::min(threads_, rows));
    std::vector<std::jthread> others;
    for (std::size_t p = 1; p < parts; ++p)
      others.emplace_back(
          [&, begin = rows * p / parts, end = rows * (p + 1) / parts] { pack(first + begin, first + end, out + begin * row_bytes); });
    pack(first, first + rows / parts, out);
  }

  std::size_t threads_;
  std::array<locked_memory, 2> buffers_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
