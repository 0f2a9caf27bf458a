// SPDX-License-Identifier: MIT
// These functions check the bits of a number. Under -ffast-math a compiler may assume that std::isfinite is always true.
#pragma once

#include <bit>
#include <cstdint>

namespace lazyprune {
inline namespace v0 {

constexpr bool is_finite(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7f80'0000u) != 0x7f80'0000u; }
constexpr bool is_finite(double x) {
  constexpr std::uint64_t exponent = 0x7ff0'0000'0000'0000u;
  return (std::bit_cast<std::uint64_t>(x) & exponent) != exponent;
}

constexpr bool is_nan(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7fff'ffffu) > 0x7f80'0000u; }
constexpr bool is_nan(double x) { return (std::bit_cast<std::uint64_t>(x) & 0x7fff'ffff'ffff'ffffu) > 0x7ff0'0000'0000'0000u; }

}  // namespace v0
}  // namespace lazyprune
