// SPDX-License-Identifier: MIT
// Rows of activations put aside on the device (the Aux Cache's), as float or in half the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/host.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// (slots, columns). Copies share memory until one of them writes.
class stored_rows {
 public:
  explicit stored_rows(std::size_t columns) : columns_(columns), blocks_(columns * size_of(dtype::f32)) {}

  std::size_t columns() const { return columns_; }
  dtype type() const { return type_; }                 // f32 or bf16
  std::size_t size() const { return blocks_.size(); }  // slots in use
  std::size_t bytes() const { return blocks_.bytes(); }

  /// Room for these slots. An empty store takes the type `as`, f32 or bf16; one that is not empty keeps its own.
  void reserve(std::span<const std::uint32_t> slots, dtype as) {
    if (blocks_.bytes() == 0 && as != type_) {
      blocks_ = blocks(columns_ * size_of(as));
      type_ = as;
    }
    blocks_.reserve(slots);
  }

  /// The device's address of a slot in use.
  const void* row(std::size_t slot) const { return blocks_.row(slot); }
  /// To be written: of a slot that there is room for since it was last shared.
  void* row(std::size_t slot) { return blocks_.row(slot); }

  void release(std::span<const std::uint32_t> slots) noexcept { blocks_.release(slots); }
  template <class Visit>
  void retain(Visit&& visit) noexcept {
    blocks_.retain(visit);
  }

 private:
  using blocks = slot_blocks<std::byte, array<std::byte, purpose::stored_rows>>;

  std::size_t columns_;
  dtype type_ = dtype::f32;
  blocks blocks_;
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
