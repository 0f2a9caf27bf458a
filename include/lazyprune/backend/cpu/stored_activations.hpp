// SPDX-License-Identifier: MIT
// Rows of activations put aside (the Aux Cache's), as float or in half the memory.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>

#include <lazyprune/backend/cpu/kernels/convert.hpp>
#include <lazyprune/backend/host.hpp>

namespace lazyprune {
inline namespace v0 {

/// (slots, columns). Copies share memory until one of them writes.
class stored_activations {
 public:
  explicit stored_activations(std::size_t columns) : columns_(columns), blocks_(columns * size_of(dtype::f32)) {}

  std::size_t columns() const { return columns_; }
  dtype type() const { return type_; }  // f32 or bf16
  std::size_t size() const { return blocks_.size(); }  // slots in use
  std::size_t bytes() const { return blocks_.bytes(); }

  /// Room for these slots. An empty store takes the type `as`, f32 or bf16; one that is not empty keeps its own.
  void reserve(std::span<const std::uint32_t> slots, dtype as) {
    if (blocks_.bytes() == 0 && as != type_) {
      blocks_ = slot_blocks<std::byte>(columns_ * size_of(as));
      type_ = as;
    }
    blocks_.reserve(slots);
  }

  /// row (columns). bf16 rounds to nearest, ties to even.
  void write(std::size_t slot, const float* row) {
    if (type_ == dtype::f32)
      std::memcpy(blocks_.row(slot), row, blocks_.columns());
    else
      kernels::convert(dtype::f32, reinterpret_cast<const std::byte*>(row), columns_, reinterpret_cast<std::uint16_t*>(blocks_.row(slot)));
  }

  void read(std::size_t slot, float* row) const {
    if (type_ == dtype::f32)
      std::memcpy(row, blocks_.row(slot), blocks_.columns());
    else
      kernels::convert(dtype::bf16, blocks_.row(slot), columns_, row);
  }

  void release(std::span<const std::uint32_t> slots) noexcept { blocks_.release(slots); }
  template <class Visit>
  void retain(Visit&& visit) noexcept {
    blocks_.retain(visit);
  }

 private:
  std::size_t columns_;
  dtype type_ = dtype::f32;
  slot_blocks<std::byte> blocks_;
};

}  // namespace v0
}  // namespace lazyprune
