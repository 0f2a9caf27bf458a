// SPDX-License-Identifier: MIT
// Rows by slot, in f32 or bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lazyprune/backend/memory/slot_blocks.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune {
inline namespace v0 {

/// Rows (slots, columns) in f32 or bf16. The backend converts the numbers. Copies share memory until one of them writes. `Memory` is a
/// class with the members of aligned_array<std::byte>.
template <class Memory = aligned_array<std::byte>>
class typed_rows {
 public:
  /// `type`: f32 or bf16.
  explicit typed_rows(std::size_t columns, dtype type = dtype::f32) : columns_(columns), type_(type), blocks_(columns * size_of(type)) {}

  std::size_t columns() const { return columns_; }
  dtype type() const { return type_; }                 // f32 or bf16
  std::size_t size() const { return blocks_.size(); }  // slots in use
  std::size_t bytes() const { return blocks_.bytes(); }

  /// Makes room for these slots. While no slot is in use, the rows take the type `as`, f32 or bf16. Otherwise the type stays.
  void reserve(std::span<const std::uint32_t> slots, dtype as) {
    take_type(as);
    blocks_.reserve(slots);
  }

  /// Allocates memory for the slots below `count`. While no slot is in use, the rows take the type `as`, f32 or bf16. Otherwise the type
  /// stays. The memory stays allocated even if no slot is in use, until the type changes.
  void hold(std::size_t count, dtype as) {
    take_type(as);
    blocks_.hold(count);
  }

  /// Returns the row of a slot, which must be in use.
  const void* row(std::size_t slot) const { return blocks_.row(slot); }
  /// Returns the row of a slot for writing. Call `reserve` for the slot first. Call it again after this object was copied, because the copy
  /// shares the blocks until then.
  void* row(std::size_t slot) { return blocks_.row(slot); }

  void release(std::span<const std::uint32_t> slots) noexcept { blocks_.release(slots); }
  template <class Visit>
  void retain(Visit&& visit) noexcept {
    blocks_.retain(visit);
  }

 private:
  void take_type(dtype as) {
    if (blocks_.size() > 0 || as == type_) return;
    blocks_ = slot_blocks<std::byte, Memory>(columns_ * size_of(as));
    type_ = as;
  }

  std::size_t columns_;
  dtype type_;
  slot_blocks<std::byte, Memory> blocks_;
};

}  // namespace v0
}  // namespace lazyprune
