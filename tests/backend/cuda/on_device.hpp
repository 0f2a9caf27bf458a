// SPDX-License-Identifier: MIT
// Copies numbers to the device and back.
#pragma once

#include <lazyprune/backend/cuda/memory.hpp>

#include <span>
#include <vector>

namespace lazyprune_test {

/// Returns `count` numbers, copied from the device address `there`.
template <class T>
std::vector<T> numbers_at(const T* there, std::size_t count) {
  std::vector<T> here(count);
  cudaMemcpyAsync(here.data(), there, count * sizeof(T), cudaMemcpyDeviceToHost, lazyprune::device::stream());
  lazyprune::device::synchronize();
  return here;
}

/// A copy of host numbers on the device, or device memory that was never written.
template <class T>
class on_device {
 public:
  explicit on_device(std::size_t size) : memory_(size) {}
  explicit on_device(const std::vector<T>& here) : memory_(here.size()) {
    cudaMemcpyAsync(memory_.data(), here.data(), memory_.bytes(), cudaMemcpyHostToDevice, lazyprune::device::stream());
    lazyprune::device::synchronize();
  }

  T* data() { return memory_.data(); }
  std::vector<T> numbers() const { return numbers_at(memory_.data(), memory_.size()); }

 private:
  lazyprune::device::array<T, lazyprune::device::purpose::scratch> memory_;
};

}  // namespace lazyprune_test
