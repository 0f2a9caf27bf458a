// SPDX-License-Identifier: MIT
// Unpacking of quantized weights in AVX2.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx2/convert.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/vec.hpp>
#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

#define LAZYPRUNE_AVX2_CODES LAZYPRUNE_TARGET("avx2") __attribute__((always_inline)) inline

/// Returns `width` bits of 32 codes of a line. `plane` has these bits of all lines, and `first` is the first code.
LAZYPRUNE_AVX2_CODES __m256i load_bits(const std::byte* plane, std::size_t line, std::size_t width, std::size_t first) {
  const std::size_t lines = 8 / width;  // that share their bytes
  const std::byte* const bytes = plane + line / lines * panel_layout::line_codes + first;
  const __m128i place = _mm_cvtsi32_si128(static_cast<int>(line % lines * width));
  const __m256i shifted = _mm256_srl_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)), place);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>((1 << width) - 1)));
}

/// Writes the codes of a line as bytes.
LAZYPRUNE_AVX2_CODES void load_codes(const panel_layout& layout, const std::byte* panel, std::size_t line, std::uint8_t* codes) {
  const unsigned bits = layout.format.bits;
  for (std::size_t first = 0; first < panel_layout::line_codes; first += 32) {
    __m256i all = load_bits(panel + layout.codes, line, bits == 8 ? 8 : 4, first);
    if (bits == 5 || bits == 6) {
      const __m256i upper = load_bits(panel + layout.upper, line, bits - 4, first);
      all = _mm256_or_si256(all, _mm256_slli_epi16(upper, 4));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + first), all);
  }
}

LAZYPRUNE_TARGET("avx2,fma,f16c")
inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  constexpr std::size_t vectors = panel_layout::line_codes / 8;
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0; group < format.groups(); ++group) {
      alignas(32) float scales[panel_layout::line_codes], bases[panel_layout::line_codes];
      for (std::size_t output = 0; output < tile_outputs; ++output) {
        const panel_layout::factors by = layout.factors_of(panel, group, output);
        scales[2 * output] = scales[2 * output + 1] = by.scale;
        bases[2 * output] = bases[2 * output + 1] = by.base;
      }
      for (std::size_t line = group * format.group / 2; line < (group + 1) * format.group / 2; ++line, tile += line_bytes) {
        alignas(32) std::uint8_t codes[panel_layout::line_codes];
        load_codes(layout, panel, line, codes);
        for (std::size_t v = 0; v < vectors; ++v) {
          const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * v));
          const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
          const __m256 numbers = _mm256_fmsub_ps(_mm256_load_ps(scales + 8 * v), whole, _mm256_load_ps(bases + 8 * v));
          store_as(reinterpret_cast<std::uint16_t*>(tile) + 8 * v, numbers);
        }
      }
    }
}

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
