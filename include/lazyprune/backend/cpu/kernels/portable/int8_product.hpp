// SPDX-License-Identifier: MIT
// Products of activations in 8 bits with quantized weights, on any processor.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <lazyprune/backend/cpu/kernels/int8_rows.hpp>
#include <lazyprune/backend/cpu/kernels/portable/halves.hpp>
#include <lazyprune/backend/cpu/kernels/portable/product.hpp>
#include <lazyprune/backend/cpu/kernels/portable/unpack.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

/// Rounds a block of a row to 8 bits. The numbers after the first `count` are zeros.
inline void pack_int8_block(const float* x, std::size_t count, const int8_block& block, std::size_t row, std::byte* packed) {
  std::uint32_t largest = 0;  // bits of absolute values have the order of the values, and those of NaN are the largest
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  const auto most = std::bit_cast<float>(largest);
  const float scale = most / block.most, inverse = block.most / most;
  const bool rounds = most >= block.least && most <= std::numeric_limits<float>::max();
  std::int16_t sums[2] = {};
  for (std::size_t i = 0; i < block.inputs; ++i) {
    const auto code = static_cast<std::int8_t>(rounds && i < count ? std::lrint(x[i] * inverse) : 0);
    packed[block.codes(i / panel_layout::quad, row) + i % panel_layout::quad] = static_cast<std::byte>(code);
    sums[i / 16] = static_cast<std::int16_t>(sums[i / 16] + code);
  }
  std::memcpy(packed + block.scale(row), &scale, sizeof scale);
  std::memcpy(packed + block.sums(row), sums, sizeof sums);
}

inline void pack_int8(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth, std::byte* packed) {
  const int8_block block{rows};
  for (std::size_t k = 0; k < depth; k += block.inputs, packed += block.bytes())
    for (std::size_t r = 0; r < rows; ++r)
      pack_int8_block(x + r * stride + k, std::min(block.inputs, inputs - std::min(inputs, k)), block, r, packed);
}

/// Two inputs of each output: numbers of 16 bits, codes minus the offset.
using weight_pairs = std::int16_t[tile_outputs][2];

/// Writes four inputs of half of the outputs as two rows of pairs.
inline void widen_line(const std::byte* line, int offset, std::int16_t (*first)[2], std::int16_t (*second)[2]) {
#if defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128(), offsets = _mm_set1_epi16(static_cast<std::int16_t>(offset));
  for (std::size_t n = 0; n < half_outputs; n += 4) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + n * panel_layout::quad));
    const __m128 lower = _mm_castsi128_ps(_mm_sub_epi16(_mm_unpacklo_epi8(four, zero), offsets));
    const __m128 upper = _mm_castsi128_ps(_mm_sub_epi16(_mm_unpackhi_epi8(four, zero), offsets));
    _mm_storeu_ps(reinterpret_cast<float*>(first + n), _mm_shuffle_ps(lower, upper, 0x88));
    _mm_storeu_ps(reinterpret_cast<float*>(second + n), _mm_shuffle_ps(lower, upper, 0xdd));
  }
#else
  for (std::size_t n = 0; n < half_outputs; ++n)
    for (std::size_t i = 0; i < 2; ++i) {
      first[n][i] = static_cast<std::int16_t>(std::to_integer<int>(line[n * panel_layout::quad + i]) - offset);
      second[n][i] = static_cast<std::int16_t>(std::to_integer<int>(line[n * panel_layout::quad + 2 + i]) - offset);
    }
#endif
}

/// sums (32) += the products of 16 inputs.
inline void add_pairs(const weight_pairs* weights, const std::int8_t (&x)[16], std::int32_t (&sums)[tile_outputs]) {
#if defined(__SSE2__)
  __m128i pairs[8];
  for (std::size_t p = 0; p < 8; ++p)
    pairs[p] =
        _mm_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(x[2 * p] & 0xffff) | static_cast<std::uint32_t>(x[2 * p + 1]) << 16));
  for (std::size_t n = 0; n < tile_outputs; n += 4) {
    __m128i sum = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + n));
    for (std::size_t p = 0; p < 8; ++p)
      sum = _mm_add_epi32(sum, _mm_madd_epi16(pairs[p], _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights[p][n]))));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + n), sum);
  }
#else
  for (std::size_t p = 0; p < 8; ++p)
    for (std::size_t n = 0; n < tile_outputs; ++n) sums[n] += weights[p][n][0] * x[2 * p] + weights[p][n][1] * x[2 * p + 1];
#endif
}

/// The factors that all groups of a panel share.
struct common_factors {
  float scales[tile_outputs], leasts[tile_outputs] = {};

  common_factors(const panel_layout& layout, const std::byte* panel) {
    widen_halves(panel, scales);
    if (layout.format.has_least) widen_halves(panel + layout.leasts, leasts);
  }

  /// Writes the factors of a group.
  void of_group(const panel_layout& layout, const std::byte* panel, std::size_t group, float (&group_scales)[tile_outputs],
                float (&bases)[tile_outputs]) const {
    const bool several = layout.format.groups() > 1;
    multiply(scales, several ? reinterpret_cast<const std::int8_t*>(panel + layout.group_scales + group * tile_outputs) : nullptr,
             group_scales);
    if (layout.format.has_least)
      multiply(leasts, several ? reinterpret_cast<const std::uint8_t*>(panel + layout.group_leasts + group * tile_outputs) : nullptr,
               bases);
  }

 private:
  /// to = x * by. If `by` is null, the factor is 1.
  template <class Integer>
  static void multiply(const float (&x)[tile_outputs], const Integer* by, float (&to)[tile_outputs]) {
    for (std::size_t n = 0; n < tile_outputs; ++n) to[n] = by ? x[n] * static_cast<float>(by[n]) : x[n];
  }
};

inline void unpack_int8(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const block_format& format = layout.format;
  const int8_tile of(format);
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes) {
    const common_factors factors(layout, panel);
    for (std::size_t first = 0; first < format.inputs; first += pack_inputs, tile += of.bytes) {
      for (std::size_t line = 0; line < 2 * int8_block::quads; ++line) {
        std::uint8_t codes[panel_layout::line_codes];
        load_line(layout, panel, panel_layout::line_of(first, 0) + line, codes);
        std::memcpy(tile + line * sizeof codes, codes, sizeof codes);
      }
      for (std::size_t g = 0; g < of.groups; ++g) {
        float scales[tile_outputs], bases[tile_outputs];
        factors.of_group(layout, panel, first / format.group + g, scales, bases);
        std::memcpy(tile + of.scales + g * sizeof scales, scales, sizeof scales);
        if (format.has_least) std::memcpy(tile + of.bases + g * sizeof bases, bases, sizeof bases);
      }
    }
  }
}

/// Returns the codes of a line, where they are or in `room`.
inline const std::byte* codes_of(const panel_layout& layout, const std::byte* panel, std::size_t line,
                                 std::uint8_t (&room)[panel_layout::line_codes]) {
  if (layout.lower_bits == 8) return panel + layout.codes + line * panel_layout::line_codes;
  load_line(layout, panel, line, room);
  return reinterpret_cast<const std::byte*>(room);
}

/// products (32) = the codes of a group, minus the offset, times a row's codes. `line`: the group's first line. `x`: the row's codes of the
/// group. `sum`: their sum.
template <std::size_t Inputs>
void multiply_group(const panel_layout& layout, const std::byte* panel, std::size_t line, const std::int8_t* x, std::int32_t sum,
                    std::int32_t (&products)[tile_outputs]) {
  constexpr std::size_t quads = Inputs / panel_layout::quad;
  std::uint8_t room[panel_layout::line_codes];
#if defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128(), all_offsets = _mm_set1_epi32(layout.format.offset * sum);
  for (std::size_t half = 0; half < 2; ++half) {
    __m128i sums[half_outputs / 2];  // two for each output
    for (__m128i& two : sums) two = zero;
    for (std::size_t q = 0; q < quads; ++q) {
      const std::byte* const codes = codes_of(layout, panel, line + 2 * q + half, room);
      std::int32_t four;
      std::memcpy(&four, x + q * panel_layout::quad, sizeof four);
      const __m128i bytes = _mm_set1_epi32(four);
      const __m128i numbers = _mm_srai_epi16(_mm_unpacklo_epi8(zero, bytes), 8);  // a row's quad, twice, as numbers of 16 bits
      for (std::size_t n = 0; n < half_outputs / 4; ++n) {
        const __m128i weights = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + n * 16));
        sums[2 * n] = _mm_add_epi32(sums[2 * n], _mm_madd_epi16(_mm_unpacklo_epi8(weights, zero), numbers));
        sums[2 * n + 1] = _mm_add_epi32(sums[2 * n + 1], _mm_madd_epi16(_mm_unpackhi_epi8(weights, zero), numbers));
      }
    }
    for (std::size_t n = 0; n < half_outputs / 4; ++n) {
      const __m128 a = _mm_castsi128_ps(sums[2 * n]), b = _mm_castsi128_ps(sums[2 * n + 1]);
      const __m128i all = _mm_add_epi32(_mm_castps_si128(_mm_shuffle_ps(a, b, 0x88)), _mm_castps_si128(_mm_shuffle_ps(a, b, 0xdd)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(products + half * half_outputs + n * 4), _mm_sub_epi32(all, all_offsets));
    }
  }
#else
  for (std::int32_t& product : products) product = -layout.format.offset * sum;
  for (std::size_t l = 0; l < 2 * quads; ++l) {
    const std::byte* const codes = codes_of(layout, panel, line + l, room);
    for (std::size_t n = 0; n < half_outputs; ++n)
      for (std::size_t i = 0; i < panel_layout::quad; ++i)
        products[l % 2 * half_outputs + n] += std::to_integer<int>(codes[n * panel_layout::quad + i]) * x[l / 2 * panel_layout::quad + i];
  }
#endif
}

/// parts (32) += products * scales, and parts -= sum * bases if the format has bases. `sum` is the sum of a row's codes.
inline void add_group(const std::int32_t (&products)[tile_outputs], const float (&scales)[tile_outputs], const float (&bases)[tile_outputs],
                      bool has_least, std::int32_t sum, float (&parts)[tile_outputs]) {
  for (std::size_t n = 0; n < tile_outputs; ++n) {
    parts[n] = static_cast<float>(products[n]) * scales[n] + parts[n];
    if (has_least) parts[n] -= static_cast<float>(sum) * bases[n];
  }
}

/// 32 inputs of a weight.
struct weight_block {
  weight_pairs pairs[16];
  float scales[2][tile_outputs], bases[2][tile_outputs] = {};  // of each group

  /// Takes the codes of a line.
  void take_line(std::size_t line, const std::byte* codes, int offset) {
    const std::size_t at = line % 2 * half_outputs;
    widen_line(codes, offset, pairs[line / 2 * 2] + at, pairs[line / 2 * 2 + 1] + at);
  }
};

/// sums (32) += the products of a row's block.
inline void add_block(const weight_block& weights, const block_format& format, const int8_block& block, const std::byte* packed,
                      std::size_t row, float* sums) {
  const std::size_t groups = pack_inputs / format.group;
  std::int8_t codes[2][16];
  std::int16_t code_sums[2];
  float scale, parts[tile_outputs] = {};
  for (std::size_t q = 0; q < block.quads; ++q) std::memcpy(codes[q / 4] + q % 4 * panel_layout::quad, packed + block.codes(q, row), 4);
  std::memcpy(&scale, packed + block.scale(row), sizeof scale);
  std::memcpy(code_sums, packed + block.sums(row), sizeof code_sums);
  for (std::size_t g = 0; g < groups; ++g) {
    std::int32_t products[tile_outputs] = {};
    for (std::size_t i = g; i < 2; i += groups) add_pairs(weights.pairs + 8 * i, codes[i], products);
    const std::int32_t sum = groups == 2 ? code_sums[g] : code_sums[0] + code_sums[1];
    add_group(products, weights.scales[g], weights.bases[g], format.has_least, sum, parts);
  }
  for (std::size_t n = 0; n < tile_outputs; ++n) sums[n] += parts[n] * scale;
}

inline void multiply_int8(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                          const tile_mode& mode) {
  const block_format& format = *mode.format;
  const int8_tile of(format);
  const int8_block block{rows};
  if (!mode.more) std::fill_n(sums, rows * tile_outputs, 0.0f);
  for (std::size_t k = 0; k < depth; k += block.inputs, tile += of.bytes, packed += block.bytes()) {
    weight_block weights;
    for (std::size_t line = 0; line < 2 * block.quads; ++line) weights.take_line(line, tile + line * cache_line, format.offset);
    std::memcpy(weights.scales, tile + of.scales, of.groups * sizeof weights.scales[0]);
    if (format.has_least) std::memcpy(weights.bases, tile + of.bases, of.groups * sizeof weights.bases[0]);
    for (std::size_t r = 0; r < rows; ++r) add_block(weights, format, block, packed, r, sums + r * tile_outputs);
  }
}

template <std::size_t Group>
void multiply_row_in_groups(const panel_layout& layout, const std::byte* packed, const std::byte* panel, std::size_t inputs, float* sums) {
  const block_format& format = layout.format;
  const int8_block block{1};
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes) {
    const common_factors factors(layout, panel);
    for (std::size_t first = 0; first < format.inputs; first += pack_inputs, packed += block.bytes()) {
      std::int8_t codes[pack_inputs];
      std::int16_t code_sums[2];
      float scale, parts[tile_outputs] = {};
      std::memcpy(codes, packed + block.codes(0, 0), sizeof codes);
      std::memcpy(&scale, packed + block.scale(0), sizeof scale);
      std::memcpy(code_sums, packed + block.sums(0), sizeof code_sums);
      for (std::size_t g = 0; g < pack_inputs / Group; ++g) {
        float scales[tile_outputs], bases[tile_outputs] = {};
        factors.of_group(layout, panel, first / Group + g, scales, bases);
        const std::int32_t sum = Group == 16 ? code_sums[g] : code_sums[0] + code_sums[1];
        std::int32_t products[tile_outputs];
        multiply_group<Group>(layout, panel, panel_layout::line_of(first + g * Group, 0), codes + g * Group, sum, products);
        add_group(products, scales, bases, format.has_least, sum, parts);
      }
      for (std::size_t n = 0; n < tile_outputs; ++n) sums[n] += parts[n] * scale;
    }
  }
}

/// Multiplies one row.
inline void multiply_panels(const panel_layout& layout, const std::byte* packed, [[maybe_unused]] std::size_t rows, const std::byte* panel,
                            std::size_t inputs, float* sums, const tile_mode& mode) {
  assert(rows == 1);
  if (!mode.more) std::fill_n(sums, tile_outputs, 0.0f);
  if (layout.format.group == 16)
    multiply_row_in_groups<16>(layout, packed, panel, inputs, sums);
  else
    multiply_row_in_groups<32>(layout, packed, panel, inputs, sums);
}

inline constexpr product_kernel int8 = [] {
  product_kernel k = with_int8_rows(bf16);
  k.strip = 24;
  k.pack = pack_int8;
  k.unpack = unpack_int8;
  k.multiply = multiply_int8;
  k.panel_rows = 1;
  k.multiply_panels = multiply_panels;
  return k;
}();

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
