// SPDX-License-Identifier: MIT
// Whether a number is finite, by its bits: compilers fold std::isfinite to true where a user's flags promise them finite numbers
// (-ffast-math), and that a number is finite is what we check.
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
