// SPDX-License-Identifier: MIT
// Stored rows of activations (the Aux Cache), as f32, or as bf16 in half the memory.
#pragma once

#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/convert.hpp>
#include <lazyprune/backend/memory/typed_rows.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows (slots, columns). Copies share memory until one of them writes.
class stored_activations : public typed_rows<> {
 public:
  using typed_rows::typed_rows;

  /// Writes `from` (columns) to the row of a slot. If the rows are bf16, numbers are rounded to nearest, ties to even.
  void write(std::size_t slot, const float* from) {
    if (type() == dtype::f32)
      std::memcpy(row(slot), from, columns() * sizeof(float));
    else
      kernels::convert(dtype::f32, reinterpret_cast<const std::byte*>(from), columns(), static_cast<std::uint16_t*>(row(slot)));
  }

  void read(std::size_t slot, float* to) const {
    if (type() == dtype::f32)
      std::memcpy(to, row(slot), columns() * sizeof(float));
    else
      kernels::convert(dtype::bf16, static_cast<const std::byte*>(row(slot)), columns(), to);
  }
};

}  // namespace v0
}  // namespace lazyprune
