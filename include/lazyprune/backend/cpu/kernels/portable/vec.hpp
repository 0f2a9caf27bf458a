// SPDX-License-Identifier: MIT
// Registers that every processor of the architecture has: SSE2 on x86-64, NEON on 64-bit ARM. xsimd gives access to them. The portable
// kernels use these registers, whatever the flags of the translation unit.
#pragma once

#include <xsimd/xsimd.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

#if defined(__x86_64__)
using batch = xsimd::batch<float, xsimd::sse2>;
#elif defined(__aarch64__)
using batch = xsimd::batch<float, xsimd::neon64>;
#else
#error "lazyprune::cpu is for x86-64 and 64-bit ARM"
#endif

/// Four floats.
struct vec {
  using floats = batch;
  using integers = xsimd::batch<std::int32_t, batch::arch_type>;
  static constexpr std::size_t size = batch::size;
  static constexpr std::size_t squares = 1;  // vectors that a norm sums at once; a norm has 32 lanes of squares
  static constexpr std::size_t rows = 1;     // rows that soften_rows computes at once, at most
  static constexpr std::size_t chains = 1;   // chains of maxima in a row
  static constexpr bool fades_first = true;  // a softmax scales the mass before it adds weights: nothing is fused

  static floats all(float x) { return floats(x); }
  static floats load(const float* x) { return floats::load_unaligned(x); }
  static void store(float* to, floats v) { v.store_unaligned(to); }

  /// Returns x[0..3], with zeros from index `left` on.
  static floats load_some(const float* x, std::size_t left) {
    if (left >= size) return load(x);
    float part[size] = {};
    std::copy_n(x, left, part);
    return load(part);
  }
  /// Stores the first `left` lanes.
  static void store_some(float* to, std::size_t left, floats v) {
    if (left >= size) return store(to, v);
    float part[size];
    store(part, v);
    std::copy_n(part, left, to);
  }

  static floats add(floats a, floats b) { return a + b; }
  static floats subtract(floats a, floats b) { return a - b; }
  static floats multiply(floats a, floats b) { return a * b; }
  static floats divide(floats a, floats b) { return a / b; }
  static floats negative(floats a) { return -a; }
  static floats multiply_add(floats a, floats b, floats c) { return xsimd::fma(a, b, c); }            // a b + c
  static floats negative_multiply_add(floats a, floats b, floats c) { return xsimd::fma(-a, b, c); }  // c - a b
  static floats most(floats a, floats b) { return xsimd::max(a, b); }

  /// Replaces -infinity by 0.
  static floats not_minus_infinity(floats a) {
    return xsimd::select(a == floats(-std::numeric_limits<float>::infinity()), floats(0.0f), a);
  }

  static integers all_integers(std::int32_t x) { return integers(x); }
  static integers load_integers(const std::int32_t* x) { return integers::load_unaligned(x); }
  static integers add_integers(integers a, integers b) { return a + b; }
  /// Returns `yes` in the lanes where a > b, and `no` in the others.
  static floats where_greater(integers a, integers b, floats yes, floats no) {
    // xsimd's own bitwise_cast has different template arguments in different versions of xsimd.
    return std::bit_cast<floats>(xsimd::select(a > b, std::bit_cast<integers>(yes), std::bit_cast<integers>(no)));
  }

  /// Returns the number of one row, in all lanes.
  static floats load_rows(const float* x, std::size_t) { return all(*x); }
  static void store_rows(float* to, std::size_t, floats v) {
    float lanes[size];
    store(lanes, v);
    *to = lanes[0];
  }

  /// Returns the largest lane, in all lanes.
  static floats largest_lanes(const floats (&v)[1]) {
    float lanes[size];
    store(lanes, v[0]);
    return all(*std::max_element(lanes, lanes + size));
  }
};

// The portable kernels use xsimd's exp and tanh instead of the shared functions. Without fused multiply-adds, the shared functions would
// not give the bits of the other instruction sets anyway.
inline batch exp(const batch& x) { return xsimd::exp(x); }
inline batch weight_of(const batch& x) { return xsimd::exp(x); }
inline batch tanh(const batch& x) { return xsimd::tanh(x); }

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
