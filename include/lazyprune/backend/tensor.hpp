// SPDX-License-Identifier: MIT
// Stored numbers: a tensor as a checkpoint holds it, and how its types read as float.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lazyprune {
inline namespace v0 {

enum class dtype : std::uint8_t { f32, f16, bf16 };

constexpr std::size_t size_of(dtype type) { return type == dtype::f32 ? 4 : 2; }
constexpr std::string_view name_of(dtype type) { return type == dtype::f32 ? "f32" : type == dtype::f16 ? "f16" : "bf16"; }

/// A matrix (rows, columns), or a vector (1, columns), in row-major order, little-endian. The data belongs to the checkpoint and
/// may be unaligned.
struct tensor {
  dtype type;
  std::size_t rows;
  std::size_t columns;
  const std::byte* data;

  std::size_t bytes() const { return rows * columns * size_of(type); }
};

constexpr float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t bf16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f80'0000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal
  return sign ? -magnitude : magnitude;
}

/// `count` numbers of the tensor from element `first` on, as T (float or double).
template <class T>
void widen(const tensor& from, std::size_t first, std::size_t count, T* out) {
  const std::byte* at = from.data + first * size_of(from.type);
  for (std::size_t i = 0; i < count; ++i) {
    if (from.type == dtype::f32) {
      float value;
      std::memcpy(&value, at + i * 4, 4);
      out[i] = value;
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, at + i * 2, 2);
      out[i] = from.type == dtype::bf16 ? float_of_bf16(bits) : float_of_f16(bits);
    }
  }
}

}  // namespace v0
}  // namespace lazyprune
