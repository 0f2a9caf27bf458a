// SPDX-License-Identifier: MIT
// Copies numbers to the device and back.
#pragma once

#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/operand.hpp>

#include <cstdint>
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

/// Writes x (rows, columns) to a prepared operand.
inline void write_rows(lazyprune::device::operand& to, const std::vector<float>& x) {
  namespace device = lazyprune::device;
  on_device<float> from(x);
  const auto convert = [&]<class T>(device::row_span<T> rows) {
    device::launch(device::convert_rows<float, T>, {static_cast<unsigned>(to.rows())}, {32}, 0, device::stream(),
                   device::row_span<const float>{from.data(), to.columns()}, to.columns(), rows);
  };
  to.type() == lazyprune::dtype::bf16 ? convert(to.rows_of<std::uint16_t>()) : convert(to.rows_of<float>());
  device::synchronize();
}

}  // namespace lazyprune_test
