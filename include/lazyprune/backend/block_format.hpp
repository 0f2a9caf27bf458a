// SPDX-License-Identifier: MIT
// How quantized matrices code their numbers: in blocks of a row, with scales that the numbers of a group or of the whole block share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lazyprune {
inline namespace v0 {

/// The numbers of a block are scale * scales[g] * (meant(code) - offset) - least * leasts[g], where g is the number's group
/// (quantized_block). A block with one group has neither `scales` nor `leasts`; both count as 1. If a format has a `least`, its offset is
/// 0. Otherwise the offset is 0 or a power of two.
struct block_format {
  std::size_t inputs;  // numbers in a block, 32 or 256
  std::size_t group;   // numbers in a group, 16 or 32
  unsigned bits;       // of a code: 4, 5, 6 or 8
  int offset;
  bool has_least;
  const std::uint8_t* table = nullptr;  // (16): what each code of 4 bits means, a code of 8 bits; must outlive all copies of the
                                        // format; null: codes mean themselves

  constexpr std::size_t groups() const { return inputs / group; }
  constexpr std::uint8_t meant(std::uint8_t code) const { return table ? table[code] : code; }

  friend bool operator==(const block_format&, const block_format&) = default;
};

/// A block of one row. A scale has 11 significant bits. What a code means, minus the offset, and the factor of its group have at most 13
/// bits together. So each of the two products of a number is exact in float, and only their difference is rounded.
struct quantized_block {
  static constexpr std::size_t most_inputs = 256, most_groups = 16;

  std::uint16_t scale = 0, least = 0;     // f16
  std::int8_t scales[most_groups] = {};   // (groups)
  std::uint8_t leasts[most_groups] = {};  // (groups), at most 127
  std::uint8_t codes[most_inputs] = {};   // (inputs)
};

}  // namespace v0
}  // namespace lazyprune
