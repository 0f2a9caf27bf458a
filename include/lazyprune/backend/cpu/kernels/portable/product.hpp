// SPDX-License-Identifier: MIT
// Products on any processor. Up to 3 rows are multiplied by half of a tile at a time, because SSE2 has only 16 registers of four
// floats. With 3 rows, the sums of 16 outputs take 12 registers. The weights and a row's number take the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/portable/unpack.hpp>
#include <lazyprune/backend/cpu/kernels/portable/unpack_kv.hpp>
#include <lazyprune/backend/cpu/kernels/portable/vec.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

inline constexpr std::size_t strip = 3;
inline constexpr std::size_t half_batches = half_outputs / batch::size;

/// The packed order is (depth, rows).
inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth, std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  for (std::size_t k = 0; k < depth; ++k)
    for (std::size_t r = 0; r < rows; ++r) *to++ = k < inputs ? x[r * stride + k] : 0.0f;
}

/// Multiplies by half of a tile in f32.
template <int Rows>
inline void multiply_lines(const float* x, const float* lines, std::size_t depth, float* to, bool more) {
  batch sums[Rows][half_batches];
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t i = 0; i < half_batches; ++i)
      sums[r][i] = more ? batch::load_unaligned(to + r * tile_outputs + i * batch::size) : batch(0.0f);
  for (std::size_t k = 0; k < depth; ++k, x += Rows, lines += tile_outputs) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const batch number(x[r]);
      for (std::size_t i = 0; i < half_batches; ++i)
        sums[r][i] = xsimd::fma(number, batch::load_unaligned(lines + i * batch::size), sums[r][i]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t i = 0; i < half_batches; ++i) sums[r][i].store_unaligned(to + r * tile_outputs + i * batch::size);
}

/// Multiplies by a tile in f32.
inline void multiply_tile(const float* x, std::size_t rows, const float* tile, std::size_t depth, float* to, bool more) {
  const auto multiply_half = rows == 1 ? multiply_lines<1> : rows == 2 ? multiply_lines<2> : multiply_lines<3>;
  constexpr std::size_t some = 256;  // inputs whose lines stay in L1 until both halves are done
  for (std::size_t k = 0; k < depth; k += some)
    for (const std::size_t half : {std::size_t{0}, half_outputs})
      multiply_half(x + k * rows, tile + k * tile_outputs + half, std::min(some, depth - k), to + half, more || k > 0);
}

/// Ignores `mode.next` and `mode.ahead`: prefetching is left to the processor.
inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                     const tile_mode& mode) {
  multiply_tile(reinterpret_cast<const float*>(packed), rows, reinterpret_cast<const float*>(tile), depth, sums, mode.more);
}

inline void widen(const std::byte* tile, std::size_t depth, float* wide) {
  for (std::size_t k = 0; k < depth; k += 2, tile += line_bytes, wide += 2 * tile_outputs) {
    std::uint32_t pairs[tile_outputs], both[2 * tile_outputs];
    std::memcpy(pairs, tile, line_bytes);
    for (std::size_t n = 0; n < tile_outputs; ++n) {
      both[n] = pairs[n] << 16;
      both[tile_outputs + n] = pairs[n] & 0xffff0000u;
    }
    std::memcpy(wide, both, sizeof both);
  }
}

/// Multiplies by weights in bf16, and widens a few lines at a time.
inline void multiply_bf16(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                          const tile_mode& mode) {
  constexpr std::size_t some = 32;  // inputs
  const auto* x = reinterpret_cast<const float*>(packed);
  float wide[some * tile_outputs];
  for (std::size_t k = 0; k < depth; k += some) {
    const std::size_t count = std::min(some, depth - k);
    widen(tile + k / 2 * line_bytes, count, wide);
    multiply_tile(x + k * rows, rows, wide, count, sums, mode.more || k > 0);
  }
}

#define LAZYPRUNE_KERNEL
#define LAZYPRUNE_KERNEL_INLINE inline
#include <lazyprune/backend/cpu/kernels/shared/epilogue.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr product_kernel f32{.strip = strip,
                                    .granule = 1,
                                    .unit_bytes = 4 * pack_inputs,
                                    .line_inputs = 1,
                                    .int8 = false,
                                    .ahead = 0,
                                    .enter = nothing,
                                    .leave = nothing,
                                    .pack = pack,
                                    .pack_rounded = nullptr,
                                    .packed_number = packed_float,
                                    .multiply = multiply,
                                    .unpack = nullptr,
                                    .unpacked_bytes = nullptr,
                                    .panel_rows = 0,
                                    .multiply_panels = nullptr,
                                    .widen = nullptr,
                                    .multiply_wide = nullptr,
                                    .multiply_unpacked = nullptr,
                                    .unpack_f16 = unpack_f16,
                                    .unpack_q8_0 = unpack_q8_0,
                                    .store = store,
                                    .add = add,
                                    .gate_silu = gate<gate_activation::silu>,
                                    .gate_gelu_tanh = gate<gate_activation::gelu_tanh>};

inline constexpr product_kernel bf16 = [] {
  product_kernel k = f32;
  k.line_inputs = 2;
  k.unpacked_bytes = unpacked_bf16_bytes;
  k.unpack_f16 = nullptr;
  k.unpack_q8_0 = nullptr;
  k.unpack = unpack;
  k.multiply = multiply_bf16;
  k.widen = widen;
  k.multiply_wide = multiply;
  return k;
}();

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
