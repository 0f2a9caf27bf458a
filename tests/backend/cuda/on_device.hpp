// SPDX-License-Identifier: MIT
// Numbers on their way to the device and back.
#pragma once

#include <lazyprune/backend/cuda/memory.hpp>

#include <span>
#include <vector>

namespace lazyprune_test {

/// A copy on the device of numbers of the host; without any, memory that was never written.
template <class T>
class on_device {
 public:
  explicit on_device(std::size_t size) : memory_(size) {}
  explicit on_device(const std::vector<T>& here) : memory_(here.size()) {
    cudaMemcpyAsync(memory_.data(), here.data(), memory_.bytes(), cudaMemcpyHostToDevice, lazyprune::device::stream());
    lazyprune::device::synchronize();
  }

  T* data() { return memory_.data(); }
  std::vector<T> numbers() const {
    std::vector<T> here(memory_.size());
    cudaMemcpyAsync(here.data(), memory_.data(), memory_.bytes(), cudaMemcpyDeviceToHost, lazyprune::device::stream());
    lazyprune::device::synchronize();
    return here;
  }

 private:
  lazyprune::device::array<T, lazyprune::device::purpose::scratch> memory_;
};

}  // namespace lazyprune_test
