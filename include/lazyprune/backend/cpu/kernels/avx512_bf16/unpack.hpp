// SPDX-License-Identifier: MIT
// Unpacking of quantized weights in AVX512-BF16.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512/vec.hpp>
#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx512_bf16 {

/// The factors of the 64 numbers of a line. A number is scale * code - base, see panel_layout::factors.
struct line_factors {
  __m512 scales[4], bases[4];
};

LAZYPRUNE_AVX512_BF16_INLINE __m512 load_halves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

/// Loads 16 bytes as floats.
template <bool Signed>
LAZYPRUNE_AVX512_BF16_INLINE __m512 load_bytes(const void* from) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return _mm512_cvtepi32_ps(Signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

LAZYPRUNE_AVX512_BF16_INLINE void load_factors(const panel_layout& layout, const std::byte* panel, std::size_t group, line_factors& to) {
  const block_format& format = layout.format;
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t place = half * half_outputs, of_group = group * tile_outputs + place;
    __m512 scale = load_halves(panel + 2 * place), base;
    if (format.groups() > 1) scale = _mm512_mul_ps(scale, load_bytes<true>(panel + layout.group_scales + of_group));
    if (format.has_least) {
      base = load_halves(panel + layout.leasts + 2 * place);
      if (format.groups() > 1) base = _mm512_mul_ps(base, load_bytes<false>(panel + layout.group_leasts + of_group));
    } else {
      base = _mm512_mul_ps(scale, _mm512_set1_ps(static_cast<float>(format.offset)));
    }
    // Two neighbouring numbers of a line are of the same output.
    static constexpr std::uint32_t lanes[2][16] = {{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
                                                   {8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15}};
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i twice = _mm512_loadu_si512(lanes[i]);
      to.scales[2 * half + i] = _mm512_permutexvar_ps(twice, scale);
      to.bases[2 * half + i] = _mm512_permutexvar_ps(twice, base);
    }
  }
}

/// Two lines in bf16. Each has two halves of 16 outputs.
struct line_pair {
  __m512i halves[2][2];
};

/// Loads bytes of a plane, 16 at a time, as 32-bit integers.
LAZYPRUNE_AVX512_BF16_INLINE __m512i load_plane(const std::byte* plane, std::size_t line, std::size_t lines, std::size_t quarter) {
  return _mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(plane + line / lines * panel_layout::line_codes + 16 * quarter)));
}

/// Unpacks the lines `line` and `line + 1` of a panel. `line` is even.
template <unsigned Bits>
LAZYPRUNE_AVX512_BF16_INLINE line_pair unpack_lines(const panel_layout& layout, const std::byte* panel, std::size_t line,
                                                    const line_factors& by) {
  __m512 numbers[2][4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    __m512 codes[2];
    if constexpr (Bits == 8) {
      codes[0] = _mm512_cvtepi32_ps(load_plane(panel + layout.codes, line, 1, i));
      codes[1] = _mm512_cvtepi32_ps(load_plane(panel + layout.codes, line + 1, 1, i));
    } else {
      const __m512i both = load_plane(panel + layout.codes, line, 2, i), second = _mm512_srli_epi32(both, 4);
      if constexpr (Bits == 4) {
        codes[0] = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15)));
        codes[1] = _mm512_cvtepi32_ps(second);
      } else {
        constexpr std::size_t width = Bits - 4, lines = 8 / width;
        const __m512i fifteen = _mm512_set1_epi32(15), mask = _mm512_set1_epi32(((1 << width) - 1) << 4);
        const __m512i upper = _mm512_slli_epi32(load_plane(panel + layout.upper, line, lines, i), 4);
        const auto place = static_cast<int>(line % lines * width);
        const __m512i first_bits = _mm512_srl_epi32(upper, _mm_cvtsi32_si128(place));
        const __m512i second_bits = _mm512_srl_epi32(upper, _mm_cvtsi32_si128(place + static_cast<int>(width)));
        codes[0] = _mm512_cvtepi32_ps(_mm512_or_si512(_mm512_and_si512(both, fifteen), _mm512_and_si512(first_bits, mask)));
        codes[1] = _mm512_cvtepi32_ps(_mm512_or_si512(second, _mm512_and_si512(second_bits, mask)));
      }
    }
    numbers[0][i] = _mm512_fmsub_ps(by.scales[i], codes[0], by.bases[i]);
    numbers[1][i] = _mm512_fmsub_ps(by.scales[i], codes[1], by.bases[i]);
  }
  line_pair pair;
#pragma GCC unroll 2
  for (std::size_t l = 0; l < 2; ++l)
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
      pair.halves[l][half] = (__m512i)_mm512_cvtne2ps_pbh(numbers[l][2 * half + 1], numbers[l][2 * half]);
  return pair;
}

template <unsigned Bits>
LAZYPRUNE_AVX512_BF16 inline void unpack_panels(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0, line = 0; group < format.groups(); ++group) {
      line_factors by;
      load_factors(layout, panel, group, by);
      for (const std::size_t end = line + format.group / 2; line < end; line += 2)
        for (const auto& halves : unpack_lines<Bits>(layout, panel, line, by).halves)
          for (const __m512i& half : halves) {
            _mm512_storeu_si512(tile, half);
            tile += cache_line;
          }
    }
}

LAZYPRUNE_AVX512_BF16 inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const unsigned bits = layout.format.bits;
  const auto unpack_bits = bits == 4 ? unpack_panels<4> : bits == 5 ? unpack_panels<5> : bits == 6 ? unpack_panels<6> : unpack_panels<8>;
  unpack_bits(layout, panel, inputs, tile);
}

}  // namespace avx512_bf16
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
