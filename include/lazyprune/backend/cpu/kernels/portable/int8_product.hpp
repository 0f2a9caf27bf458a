// SPDX-License-Identifier: MIT
// Products of activations in 8 bits with quantized weights, on any processor.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <lazyprune/backend/cpu/kernels/int8_rows.hpp>
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

inline void unpack_int8(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile) {
  const block_format& format = layout.format;
  const int8_tile of(format);
  for (std::size_t done = 0; done < inputs; done += format.inputs, panel += layout.bytes)
    for (std::size_t first = 0; first < format.inputs; first += pack_inputs, tile += of.bytes) {
      for (std::size_t line = 0; line < 2 * int8_block::quads; ++line) {
        std::uint8_t codes[panel_layout::line_codes];
        load_line(layout, panel, panel_layout::line_of(first, 0) + line, codes);
        std::memcpy(tile + line * sizeof codes, codes, sizeof codes);
      }
      for (std::size_t g = 0; g < of.groups; ++g)
        for (std::size_t n = 0; n < tile_outputs; ++n) {
          const panel_layout::factors by = layout.factors_of(panel, first / format.group + g, n);
          const std::size_t at = (g * tile_outputs + n) * sizeof(float);
          std::memcpy(tile + of.scales + at, &by.scale, sizeof by.scale);
          if (format.has_least) std::memcpy(tile + of.bases + at, &by.base, sizeof by.base);
        }
    }
}

inline void multiply_int8(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                          const tile_mode& mode) {
  const block_format& format = *mode.format;
  const int8_tile of(format);
  const int8_block block{rows};
  if (!mode.more) std::fill_n(sums, rows * tile_outputs, 0.0f);
  for (std::size_t k = 0; k < depth; k += block.inputs, tile += of.bytes, packed += block.bytes()) {
    weight_pairs weights[16];
    for (std::size_t quad = 0; quad < block.quads; ++quad)
      for (std::size_t half = 0; half < 2; ++half)
        widen_line(tile + (2 * quad + half) * cache_line, format.offset, weights[2 * quad] + half * half_outputs,
                   weights[2 * quad + 1] + half * half_outputs);
    float scales[2][tile_outputs], bases[2][tile_outputs] = {};
    std::memcpy(scales, tile + of.scales, of.groups * sizeof scales[0]);
    if (format.has_least) std::memcpy(bases, tile + of.bases, of.groups * sizeof bases[0]);
    for (std::size_t r = 0; r < rows; ++r) {
      std::int8_t codes[2][16];
      std::int16_t code_sums[2];
      float scale, parts[tile_outputs] = {};
      for (std::size_t q = 0; q < block.quads; ++q) std::memcpy(codes[q / 4] + q % 4 * panel_layout::quad, packed + block.codes(q, r), 4);
      std::memcpy(&scale, packed + block.scale(r), sizeof scale);
      std::memcpy(code_sums, packed + block.sums(r), sizeof code_sums);
      for (std::size_t g = 0; g < of.groups; ++g) {
        std::int32_t products[tile_outputs] = {};
        for (std::size_t i = g; i < 2; i += of.groups) add_pairs(weights + 8 * i, codes[i], products);
        const auto sum = static_cast<float>(of.groups == 2 ? code_sums[g] : code_sums[0] + code_sums[1]);
        for (std::size_t n = 0; n < tile_outputs; ++n) {
          parts[n] = static_cast<float>(products[n]) * scales[g][n] + parts[n];
          if (format.has_least) parts[n] -= sum * bases[g][n];
        }
      }
      for (std::size_t n = 0; n < tile_outputs; ++n) sums[r * tile_outputs + n] += parts[n] * scale;
    }
  }
}

inline constexpr product_kernel int8 = [] {
  product_kernel k = with_int8_rows(bf16);
  k.strip = 24;
  k.pack = pack_int8;
  k.unpack = unpack_int8;
  k.multiply = multiply_int8;
  return k;
}();

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
