// SPDX-License-Identifier: MIT
// These functions check the bits of a number, because under -ffast-math a compiler may assume that std::isfinite is always true.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lazyprune {
inline namespace v0 {

constexpr bool is_finite(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7f80'0000u) != 0x7f80'0000u; }
constexpr bool is_finite(double x) {
  constexpr std::uint64_t exponent = 0x7ff0'0000'0000'0000u;
  return (std::bit_cast<std::uint64_t>(x) & exponent) != exponent;
}

constexpr bool is_nan(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7fff'ffffu) > 0x7f80'0000u; }
constexpr bool is_nan(double x) { return (std::bit_cast<std::uint64_t>(x) & 0x7fff'ffff'ffff'ffffu) > 0x7ff0'0000'0000'0000u; }

/// Returns whether all numbers are finite. Reads them in one pass without branches. The inner loop has a constant length, so that compilers
/// vectorise it even at -O2.
template <class Scalar>
constexpr bool all_finite(std::span<const Scalar> numbers) noexcept {
  constexpr std::size_t block = 64;
  std::uint32_t others = 0;
  std::size_t i = 0;
  for (; i + block <= numbers.size(); i += block)
    for (std::size_t j = 0; j < block; ++j) others |= is_finite(numbers[i + j]) ? 0u : 1u;
  for (; i < numbers.size(); ++i) others |= is_finite(numbers[i]) ? 0u : 1u;
  return others == 0;
}

}  // namespace v0
}  // namespace lazyprune
