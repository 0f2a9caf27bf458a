// SPDX-License-Identifier: MIT
// Unpacking of quantized weights to bf16 in AVX512-BF16. Only the products of AMX use it.
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

using avx512::load_bytes, avx512::load_halves;

/// The factors of the numbers of a group: each vector has those of four outputs, four times. A number is scale * code - base, see
/// panel_layout::factors.
struct line_factors {
  __m512 scales[2][4], bases[2][4];
  __m512 table;  // block_format::table
};

LAZYPRUNE_AVX512_BF16_INLINE void load_factors(const panel_layout& layout, const std::byte* panel, std::size_t group, line_factors& to) {
  const block_format& format = layout.format;
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
    static constexpr std::uint32_t first_outputs[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    __m512i outputs = _mm512_loadu_si512(first_outputs);
    for (std::size_t i = 0; i < 4; ++i, outputs = _mm512_add_epi32(outputs, _mm512_set1_epi32(4))) {
      to.scales[half][i] = _mm512_permutexvar_ps(outputs, scale);
      to.bases[half][i] = _mm512_permutexvar_ps(outputs, base);
    }
  }
}

/// Loads 16 bytes as 32-bit integers.
LAZYPRUNE_AVX512_BF16_INLINE __m512i load_codes(const std::byte* from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

/// Unpacks the lines `line` and `line + 1` of a panel to two lines of a tile. `line` is even.
template <unsigned Bits, bool Table>
LAZYPRUNE_AVX512_BF16_INLINE void unpack_lines(const panel_layout& layout, const std::byte* panel, std::size_t line, const line_factors& by,
                                               std::byte* tile) {
  __m512 numbers[2][4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto plane = [&](std::size_t from, std::size_t lines, std::size_t l) {
      return panel + from + l / lines * panel_layout::line_codes + 16 * i;
    };
    __m512i codes[2];
    if constexpr (Bits == 8) {
      codes[0] = load_codes(plane(layout.codes, 1, line)), codes[1] = load_codes(plane(layout.codes, 1, line + 1));
    } else {
      const __m512i both = load_codes(plane(layout.codes, 2, line));
      codes[0] = _mm512_and_si512(both, _mm512_set1_epi32(15)), codes[1] = _mm512_srli_epi32(both, 4);
      if constexpr (Bits > 4) {
        constexpr std::size_t width = Bits - 4, lines = 8 / width;
        const __m512i upper = _mm512_slli_epi32(load_codes(plane(layout.upper, lines, line)), 4);
        const __m512i mask = _mm512_set1_epi32(((1 << width) - 1) << 4);
        const auto place = static_cast<int>(line % lines * width);
        const __m512i first = _mm512_srl_epi32(upper, _mm_cvtsi32_si128(place));
        const __m512i second = _mm512_srl_epi32(upper, _mm_cvtsi32_si128(place + static_cast<int>(width)));
        codes[0] = _mm512_or_si512(codes[0], _mm512_and_si512(first, mask));
        codes[1] = _mm512_or_si512(codes[1], _mm512_and_si512(second, mask));
      }
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const __m512 meant = Table ? _mm512_permutexvar_ps(codes[half], by.table) : _mm512_cvtepi32_ps(codes[half]);
      numbers[half][i] = _mm512_fmsub_ps(by.scales[half][i], meant, by.bases[half][i]);
    }
  }
  // A tile's first line has each output's first two inputs, and the second line has the other two.
  static constexpr std::uint32_t even_places[16] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  const __m512i even = _mm512_loadu_si512(even_places);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  for (std::size_t half = 0; half < 2; ++half) {
    const auto lower = (__m512i)_mm512_cvtne2ps_pbh(numbers[half][1], numbers[half][0]);
    const auto upper = (__m512i)_mm512_cvtne2ps_pbh(numbers[half][3], numbers[half][2]);
    _mm512_storeu_si512(tile + half * cache_line, _mm512_permutex2var_epi32(lower, even, upper));
    _mm512_storeu_si512(tile + line_bytes + half * cache_line, _mm512_permutex2var_epi32(lower, odd, upper));
  }
}

template <unsigned Bits, bool Table = false>
LAZYPRUNE_AVX512_BF16 inline void unpack_panels(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0, line = 0; group < format.groups(); ++group) {
      line_factors by;
      load_factors(layout, panel, group, by);
      if constexpr (Table) by.table = load_bytes<false>(format.table);
      for (const std::size_t end = line + format.group / panel_layout::quad * 2; line < end; line += 2, tile += 2 * line_bytes)
        unpack_lines<Bits, Table>(layout, panel, line, by, tile);
    }
}

LAZYPRUNE_AVX512_BF16 inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const unsigned bits = layout.format.bits;
  const auto unpack_four = layout.format.table ? unpack_panels<4, true> : unpack_panels<4>;
  const auto unpack_bits = bits == 4 ? unpack_four : bits == 5 ? unpack_panels<5> : bits == 6 ? unpack_panels<6> : unpack_panels<8>;
  unpack_bits(layout, panel, inputs, tile);
}

}  // namespace avx512_bf16
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
