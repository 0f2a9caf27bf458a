// SPDX-License-Identifier: MIT
// Conversion of stored numbers from one type to another. The results have the bits that tensor.hpp's functions give, except that the bits
// of a NaN may differ. With AVX2 the conversion is as fast as memory.
#pragma once

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/tensor.hpp>
#if defined(__x86_64__)
#include <lazyprune/backend/cpu/kernels/avx2/convert.hpp>
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {

inline void round_to(float* to, float number) { *to = number; }
inline void round_to(std::uint16_t* to, float number) { *to = bf16_of_float(number); }

/// Converts `count` numbers of type `type` from unaligned memory to float, or rounds them to bf16.
template <class To>
void convert(dtype type, const std::byte* from, std::size_t count, To* to) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (has(isa::avx2)) {
    done = count / 8 * 8;
    avx2::convert(type, from, done, to);
  }
#endif
  const tensor rest{type, 1, count, from};
  for (; done < count; ++done) {
    float number;
    widen(rest, done, 1, &number);
    round_to(to + done, number);
  }
}

/// Rounds `count` numbers to f16.
inline void round_to_f16(const float* from, std::size_t count, std::uint16_t* to) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (has(isa::avx2)) {
    done = count / 8 * 8;
    avx2::round_to_f16(from, done, to);
  }
#endif
  for (; done < count; ++done) to[done] = f16_of_float(from[done]);
}

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
