// SPDX-License-Identifier: MIT
// A weight on the device, in the layout that cuBLASLt reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/weight_upload.hpp>
#include <lazyprune/backend/packing_checks.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// A weight (outputs, inputs) in float or bf16. Each row begins at a multiple of 16 bytes.
class weight {
 public:
  /// Stacks the tensors `parts` along the outputs. Rounds their numbers to the type `as`, and keeps them in the type `stored`. Throws an
  /// `error` if there are no tensors, if they have different numbers of inputs, or if `as` is neither f32 nor bf16.
  weight(std::span<const tensor> parts, dtype as, dtype stored, weight_upload& upload)
      : outputs_(lazyprune::detail::stacked_outputs(parts, as)),
        inputs_(parts[0].columns),
        pitch_(pitch_of(inputs_)),
        type_(stored),
        memory_(outputs_ * pitch_ * size_of(stored)) {
    std::size_t done = 0;
    for (const tensor& part : parts) {
      upload.send(memory_.data() + done, part.rows, row_bytes(), [&](std::size_t first, std::size_t last, std::byte* out) {
        std::vector<std::byte> read(part.row_bytes());
        std::vector<float> numbers(inputs_);
        for (std::size_t r = first; r < last; ++r, out += row_bytes())
          write_row({part.type, 1, part.columns, part.row(r, read.data())}, as, numbers.data(), out);
      });
      done += part.rows * row_bytes();
    }
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
  std::size_t row_bytes() const { return pitch_ * size_of(type_); }

  /// Writes one row, rounded to `as`, followed by zeros up to the pitch. `numbers` has room for one row.
  void write_row(const tensor& row, dtype as, float* numbers, std::byte* out) const {
    const std::size_t size = inputs_ * size_of(type_);
    std::memset(out + size, 0, row_bytes() - size);
    if (row.type == as && as == type_) {
      std::memcpy(out, row.data, size);
      return;
    }
    widen(row, 0, inputs_, numbers);
    for (std::size_t i = 0; i < inputs_; ++i) {
      const std::uint16_t bits = bf16_of_float(numbers[i]);
      const float value = as == dtype::bf16 ? float_of_bf16(bits) : numbers[i];
      type_ == dtype::bf16 ? std::memcpy(out + i * 2, &bits, 2) : std::memcpy(out + i * 4, &value, 4);
    }
  }

  std::size_t outputs_, inputs_, pitch_;
  dtype type_;
  array<std::byte, purpose::weights> memory_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
