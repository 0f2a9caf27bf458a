// SPDX-License-Identifier: MIT
// Rows of activations put aside (the Aux Cache's), as float or in half the memory.
#pragma once

#include <cassert>
#include <cstring>
#include <vector>

#include <lazyprune/backend/cpu/kernels/avx2/convert.hpp>
#include <lazyprune/backend/host.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA {

/// (slots, columns), in blocks of slots: memory grows without copying what is there.
class stored_activations {
 public:
  static constexpr std::size_t block_slots = 64;

  explicit stored_activations(std::size_t columns) : columns_(columns) {}

  std::size_t columns() const { return columns_; }
  dtype type() const { return type_; }  // f32 or bf16
  std::size_t bytes() const { return blocks_.size() * block_slots * row_bytes(); }

  /// Room for so many slots at least. The first room that is made decides the type, f32 or bf16.
  void reserve(std::size_t slots, dtype as) {
    if (blocks_.empty()) type_ = as;
    while (blocks_.size() * block_slots < slots) blocks_.emplace_back(block_slots * row_bytes());
  }

  /// row (columns). bf16 rounds to nearest, ties to even.
  void write(std::size_t slot, const float* row) {
    if (type_ == dtype::f32) {
      std::memcpy(at(slot), row, row_bytes());
      return;
    }
    auto* out = reinterpret_cast<std::uint16_t*>(at(slot));
    kernels::avx2::convert<dtype::f32>(reinterpret_cast<const std::byte*>(row), whole(), out);
    for (std::size_t i = whole(); i < columns_; ++i) out[i] = bf16_of_float(row[i]);
  }

  void read(std::size_t slot, float* row) const {
    if (type_ == dtype::f32) {
      std::memcpy(row, at(slot), row_bytes());
      return;
    }
    const auto* in = reinterpret_cast<const std::uint16_t*>(at(slot));
    kernels::avx2::convert<dtype::bf16>(at(slot), whole(), row);
    for (std::size_t i = whole(); i < columns_; ++i) row[i] = float_of_bf16(in[i]);
  }

 private:
  std::size_t row_bytes() const { return columns_ * size_of(type_); }
  std::size_t whole() const { return columns_ / 8 * 8; }  // numbers that are converted eight at a time

  std::byte* at(std::size_t slot) {
    assert(slot < blocks_.size() * block_slots);
    return blocks_[slot / block_slots].data() + slot % block_slots * row_bytes();
  }
  const std::byte* at(std::size_t slot) const { return const_cast<stored_activations*>(this)->at(slot); }

  std::size_t columns_;
  dtype type_ = dtype::f32;
  std::vector<aligned_array<std::byte>> blocks_;  // (block_slots, columns)
};

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_COMPILED_ISA
