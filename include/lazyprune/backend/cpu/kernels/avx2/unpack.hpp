// SPDX-License-Identifier: MIT
// Unpacking of quantized weights to bf16 in AVX2.
#pragma once

#include <immintrin.h>

#include <limits>

#include <lazyprune/backend/cpu/kernels/avx2/vec.hpp>
#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace avx2 {

#define LAZYPRUNE_AVX2_F16C LAZYPRUNE_TARGET("avx2,fma,f16c")
#define LAZYPRUNE_AVX2_F16C_INLINE LAZYPRUNE_AVX2_F16C __attribute__((always_inline)) inline

/// The factors of the numbers of a group: each vector has those of two outputs, four times. A number is scale * code - base, see
/// panel_layout::factors.
struct line_factors {
  __m256 scales[16], bases[16];
};

LAZYPRUNE_AVX2_F16C_INLINE __m256 load_halves(const std::byte* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

/// Loads eight bytes as 32-bit integers.
LAZYPRUNE_AVX2_F16C_INLINE __m256i load_bytes(const std::byte* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
LAZYPRUNE_AVX2_F16C_INLINE __m256i load_signed_bytes(const std::byte* from) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

/// Replaces any NaN by the one that `rounded` keeps.
LAZYPRUNE_AVX2_F16C_INLINE __m256 with_quiet_nan(__m256 x) {
  const __m256 quiet = _mm256_set1_ps(std::numeric_limits<float>::quiet_NaN());
  return _mm256_blendv_ps(x, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

LAZYPRUNE_AVX2_F16C_INLINE void load_factors(const panel_layout& layout, const std::byte* panel, std::size_t group, line_factors& to) {
  const block_format& format = layout.format;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t place = 8 * i, of_group = group * tile_outputs + place;
    __m256 scale = load_halves(panel + 2 * place), base;
    if (format.groups() > 1) scale = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(load_signed_bytes(panel + layout.group_scales + of_group)));
    if (format.has_least) {
      base = load_halves(panel + layout.leasts + 2 * place);
      if (format.groups() > 1) base = _mm256_mul_ps(base, _mm256_cvtepi32_ps(load_bytes(panel + layout.group_leasts + of_group)));
    } else {
      base = _mm256_mul_ps(scale, _mm256_set1_ps(static_cast<float>(format.offset)));
    }
    scale = with_quiet_nan(scale), base = with_quiet_nan(base);
    __m256i outputs = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    for (std::size_t pair = 4 * i; pair < 4 * i + 4; ++pair, outputs = _mm256_add_epi32(outputs, _mm256_set1_epi32(2))) {
      to.scales[pair] = _mm256_permutevar8x32_ps(scale, outputs);
      to.bases[pair] = _mm256_permutevar8x32_ps(base, outputs);
    }
  }
}

/// Loads what the codes `8 * eighth` to `8 * eighth + 7` of the lines `line` and `line + 1` mean. `line` is even.
template <unsigned Bits, bool Table>
LAZYPRUNE_AVX2_F16C_INLINE void load_codes(const panel_layout& layout, const std::byte* panel, std::size_t line, std::size_t eighth,
                                           __m256i (&codes)[2]) {
  const auto plane = [&](std::size_t from, std::size_t lines) {
    return panel + from + line / lines * panel_layout::line_codes + 8 * eighth;
  };
  if constexpr (Bits == 8) {
    codes[0] = load_bytes(plane(layout.codes, 1)), codes[1] = load_bytes(plane(layout.codes, 1) + panel_layout::line_codes);
  } else {
    const __m256i both = load_bytes(plane(layout.codes, 2));
    codes[0] = _mm256_and_si256(both, _mm256_set1_epi32(15)), codes[1] = _mm256_srli_epi32(both, 4);
    if constexpr (Table) {
      const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(layout.format.table)));
      const __m256i none = _mm256_set1_epi32(static_cast<int>(0x80808000u));  // bytes that stay zero
      for (std::size_t l = 0; l < 2; ++l) codes[l] = _mm256_shuffle_epi8(table, _mm256_or_si256(codes[l], none));
    }
    if constexpr (Bits > 4) {
      constexpr std::size_t width = Bits - 4, lines = 8 / width;
      const __m256i mask = _mm256_set1_epi32(((1 << width) - 1) << 4), bits = _mm256_slli_epi32(load_bytes(plane(layout.upper, lines)), 4);
      const auto place = static_cast<int>(line % lines * width);
      const __m128i first = _mm_cvtsi32_si128(place), second = _mm_cvtsi32_si128(place + static_cast<int>(width));
      codes[0] = _mm256_or_si256(codes[0], _mm256_and_si256(_mm256_srl_epi32(bits, first), mask));
      codes[1] = _mm256_or_si256(codes[1], _mm256_and_si256(_mm256_srl_epi32(bits, second), mask));
    }
  }
}

/// Rounds to bf16, in the lower half of each lane: to the nearest number, ties to even. NaN must be quiet and have no payload.
LAZYPRUNE_AVX2_F16C_INLINE __m256i rounded(__m256 numbers) {
  const __m256i bits = _mm256_castps_si256(numbers), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}

template <unsigned Bits, bool Table = false>
LAZYPRUNE_AVX2_F16C inline void unpack_panels(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const block_format& format = layout.format;
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t group = 0, line = 0; group < format.groups(); ++group) {
      line_factors by;
      load_factors(layout, panel, group, by);
      for (const std::size_t end = line + format.group / panel_layout::quad * 2; line < end; line += 2, tile += 2 * line_bytes)
        for (std::size_t i = 0; i < 8; i += 4) {
          __m256i rows[2][4];  // in each lane, an output's four numbers in bf16
          for (std::size_t j = 0; j < 4; ++j) {
            __m256i codes[2];
            load_codes<Bits, Table>(layout, panel, line, i + j, codes);
            for (std::size_t half = 0; half < 2; ++half)
              rows[half][j] =
                  rounded(_mm256_fmsub_ps(by.scales[8 * half + i + j], _mm256_cvtepi32_ps(codes[half]), by.bases[8 * half + i + j]));
          }
          // A tile's first line has each output's first two inputs, and the second line has the other two.
          const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
          for (std::size_t half = 0; half < 2; ++half) {
            const __m256 lower = _mm256_castsi256_ps(_mm256_packus_epi32(rows[half][0], rows[half][1]));
            const __m256 upper = _mm256_castsi256_ps(_mm256_packus_epi32(rows[half][2], rows[half][3]));
            std::byte* const to = tile + half * cache_line + 8 * i;
            const __m256i first = _mm256_castps_si256(_mm256_shuffle_ps(lower, upper, 0x88));
            const __m256i second = _mm256_castps_si256(_mm256_shuffle_ps(lower, upper, 0xdd));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(first, order));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + line_bytes), _mm256_permutevar8x32_epi32(second, order));
          }
        }
    }
}

LAZYPRUNE_AVX2_F16C inline void unpack(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const unsigned bits = layout.format.bits;
  const auto unpack_four = layout.format.table ? unpack_panels<4, true> : unpack_panels<4>;
  const auto unpack_bits = bits == 4 ? unpack_four : bits == 5 ? unpack_panels<5> : bits == 6 ? unpack_panels<6> : unpack_panels<8>;
  unpack_bits(layout, panel, inputs, tile);
}

}  // namespace avx2
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
