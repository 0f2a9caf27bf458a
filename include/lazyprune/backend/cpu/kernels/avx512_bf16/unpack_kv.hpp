// SPDX-License-Identifier: MIT
// Unpacking of keys and values in q8_0 to tiles of bf16 in AVX512-BF16.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512/unpack_kv.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512_bf16 {

LAZYPRUNE_AVX512_BF16 inline void unpack_q8_0(const std::byte* panels, std::size_t inputs, bool values, std::byte* tile) {
  using lanes = avx512::kv_lanes;
  static constexpr std::uint16_t pairs[tile_outputs] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i in_pairs = _mm512_loadu_si512(pairs);
  for (const std::byte* const end = panels + inputs / q8_0_panel::inputs * q8_0_panel::bytes; panels < end; panels += q8_0_panel::bytes) {
    float scales[tile_outputs];
    for (std::size_t n = 0; n < tile_outputs; n += lanes::size) lanes::store(scales + n, lanes::load_halves(panels + 2 * n));
    for (std::size_t i = 0; i < q8_0_panel::inputs; i += 2, tile += line_bytes) {
      const std::byte* const line = panels + q8_0_panel::line(i);
      _mm_prefetch(reinterpret_cast<const char*>(line + kv_ahead), _MM_HINT_T0);
      for (std::size_t n = 0; n < tile_outputs; n += lanes::size) {
        __m512 numbers[2];
        for (std::size_t j = 0; j < 2; ++j) {
          const __m512 by = values ? lanes::all(scales[i + j]) : lanes::load(scales + n);
          numbers[j] = lanes::multiply(by, lanes::load_codes(line + j * tile_outputs + n));
        }
        const auto halves = (__m512i)_mm512_cvtne2ps_pbh(numbers[1], numbers[0]);
        _mm512_storeu_si512(tile + 4 * n, _mm512_permutexvar_epi16(in_pairs, halves));
      }
    }
    _mm_prefetch(reinterpret_cast<const char*>(panels + q8_0_panel::bytes + kv_ahead), _MM_HINT_T0);
  }
}

}  // namespace avx512_bf16
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
