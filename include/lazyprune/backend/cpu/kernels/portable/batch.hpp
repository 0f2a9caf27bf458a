// SPDX-License-Identifier: MIT
// Registers that every processor of a kind has, by xsimd: SSE2 on x86-64, NEON on 64-bit ARM. The portable kernels, where nothing better is
// there, use these whatever the translation unit is compiled for.
#pragma once

#include <xsimd/xsimd.hpp>

#include <algorithm>
#include <cstddef>

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

/// Zeros, and what there is of a batch.
inline batch load_some(const float* x, std::size_t left) {
  if (left >= batch::size) return batch::load_unaligned(x);
  float part[batch::size] = {};
  std::copy_n(x, left, part);
  return batch::load_unaligned(part);
}

inline void store_some(float* to, std::size_t left, const batch& value) {
  if (left >= batch::size) return value.store_unaligned(to);
  float part[batch::size];
  value.store_unaligned(part);
  std::copy_n(part, left, to);
}

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
