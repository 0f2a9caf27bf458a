// SPDX-License-Identifier: MIT
// A weight on the device, as cuBLASLt multiplies by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/packing_checks.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// (outputs, inputs), float or bf16, rows a multiple of 16 bytes apart.
class weight {
 public:
  /// The parts stacked along the outputs, their numbers rounded to `as` and kept in the type `stored`. Throws `error` unless they can be
  /// stacked and `as` is a dtype to compute with.
  weight(std::span<const tensor> parts, dtype as, dtype stored)
      : outputs_(lazyprune::detail::stacked_outputs(parts, as)),
        inputs_(parts[0].columns),
        pitch_(pitch_of(inputs_)),
        type_(stored),
        memory_(outputs_ * pitch_ * size_of(stored)) {
    std::vector<std::byte> rows, read;
    std::vector<float> numbers(inputs_);
    std::size_t done = 0;
    const auto send = [&] {
      if (rows.empty()) return;
      check(cudaMemcpyAsync(memory_.data() + done, rows.data(), rows.size(), cudaMemcpyHostToDevice, stream()), "weights");
      synchronize();
      done += rows.size();
      rows.clear();
    };
    for (const tensor& part : parts) {
      read.resize(part.row_bytes());
      for (std::size_t r = 0; r < part.rows; ++r) {
        lazyprune::widen(tensor{part.type, 1, part.columns, part.row(r, read.data())}, 0, inputs_, numbers.data());
        append(numbers, as, rows);
        if (rows.size() >= sent_at_a_time) send();
      }
    }
    send();
  }

  static std::size_t pitch_of(std::size_t inputs) { return (inputs + 7) / 8 * 8; }
  std::size_t outputs() const { return outputs_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t bytes() const { return memory_.bytes(); }
  dtype type() const { return type_; }          // f32 or bf16
  std::size_t pitch() const { return pitch_; }  // numbers from one row to the next
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(memory_.data());
  }

 private:
  static constexpr std::size_t sent_at_a_time = std::size_t{16} << 20;

  void append(const std::vector<float>& numbers, dtype as, std::vector<std::byte>& rows) const {
    const std::size_t at = rows.size();
    rows.resize(at + pitch_ * size_of(type_));
    for (std::size_t i = 0; i < inputs_; ++i) {
      if (type_ == dtype::bf16) {
        const std::uint16_t bits = bf16_of_float(numbers[i]);
        std::memcpy(&rows[at + i * 2], &bits, 2);
      } else {
        const float value = as == dtype::bf16 ? float_of_bf16(bf16_of_float(numbers[i])) : numbers[i];
        std::memcpy(&rows[at + i * 4], &value, 4);
      }
    }
  }

  std::size_t outputs_, inputs_, pitch_;
  dtype type_;
  array<std::byte, purpose::weights> memory_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
