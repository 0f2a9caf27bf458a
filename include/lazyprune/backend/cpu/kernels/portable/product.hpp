// SPDX-License-Identifier: MIT
// Products on any processor. A tile has up to 3 rows and is computed one panel at a time, because SSE2 has only 16 registers of four
// floats. With 3 rows, the sums of one panel take 12 registers. The weights and a row's number take the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/cpu/kernels/portable/vec.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace portable {

inline constexpr std::size_t strip = 3;
inline constexpr std::size_t panel_batches = panel_outputs / batch::size;

/// The packed order is (depth, rows).
inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth, std::byte* packed) {
  auto* to = reinterpret_cast<float*>(packed);
  for (std::size_t k = 0; k < depth; ++k)
    for (std::size_t r = 0; r < rows; ++r) *to++ = k < inputs ? x[r * stride + k] : 0.0f;
}

/// Multiplies by a panel in f32.
template <int Rows>
inline void multiply_lines(const float* x, const float* lines, std::size_t depth, float* to, bool more) {
  batch sums[Rows][panel_batches];
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t i = 0; i < panel_batches; ++i)
      sums[r][i] = more ? batch::load_unaligned(to + r * tile_outputs + i * batch::size) : batch(0.0f);
  for (std::size_t k = 0; k < depth; ++k, x += Rows, lines += panel_outputs) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const batch number(x[r]);
      for (std::size_t i = 0; i < panel_batches; ++i)
        sums[r][i] = xsimd::fma(number, batch::load_unaligned(lines + i * batch::size), sums[r][i]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t i = 0; i < panel_batches; ++i) sums[r][i].store_unaligned(to + r * tile_outputs + i * batch::size);
}

inline void multiply_panel(const float* x, std::size_t rows, const float* lines, std::size_t depth, float* to, bool more) {
  if (rows == 1) return multiply_lines<1>(x, lines, depth, to, more);
  if (rows == 2) return multiply_lines<2>(x, lines, depth, to, more);
  multiply_lines<3>(x, lines, depth, to, more);
}

/// Ignores `mode.next`: prefetching is left to the processor.
inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* first, const std::byte* second, std::size_t depth,
                     float* sums, const tile_mode& mode) {
  const auto* x = reinterpret_cast<const float*>(packed);
  multiply_panel(x, rows, reinterpret_cast<const float*>(first), depth, sums, mode.more);
  multiply_panel(x, rows, reinterpret_cast<const float*>(second), depth, sums + panel_outputs, mode.more);
}

/// In the bf16 lines, the first of two inputs is in the lower half of 32 bits, the second in the upper half.
inline void widen(const std::byte* lines, std::size_t depth, float* wide) {
  for (std::size_t k = 0; k < depth; k += 2, lines += line_bytes, wide += tile_outputs) {
    std::uint32_t pairs[panel_outputs], both[tile_outputs];
    std::memcpy(pairs, lines, line_bytes);
    for (std::size_t n = 0; n < panel_outputs; ++n) {
      both[n] = pairs[n] << 16;
      both[panel_outputs + n] = pairs[n] & 0xffff0000u;
    }
    std::memcpy(wide, both, sizeof both);
  }
}

/// Multiplies by weights in bf16, and widens a few lines at a time.
inline void multiply_bf16(const std::byte* packed, std::size_t rows, const std::byte* first, const std::byte* second, std::size_t depth,
                          float* sums, const tile_mode& mode) {
  constexpr std::size_t some = 32;  // inputs
  const auto* x = reinterpret_cast<const float*>(packed);
  float wide[some * panel_outputs];
  for (const std::byte* panel : {first, second}) {
    float* const to = panel == first ? sums : sums + panel_outputs;
    for (std::size_t k = 0; k < depth; k += some) {
      const std::size_t count = std::min(some, depth - k);
      widen(panel + k / 2 * line_bytes, count, wide);
      multiply_panel(x + k * rows, rows, wide, count, to, mode.more || k > 0);
    }
  }
}

#define LAZYPRUNE_KERNEL
#define LAZYPRUNE_KERNEL_INLINE inline
#include <lazyprune/backend/cpu/kernels/shared/epilogue.inc>
#undef LAZYPRUNE_KERNEL
#undef LAZYPRUNE_KERNEL_INLINE

inline constexpr product_kernel f32{.strip = strip,
                                    .granule = 1,
                                    .element = 4,
                                    .line_inputs = 1,
                                    .group = 2,
                                    .strip_in_l1 = true,
                                    .enter = nothing,
                                    .leave = nothing,
                                    .pack = pack,
                                    .packed_number = packed_float,
                                    .multiply = multiply,
                                    .widen = nullptr,
                                    .multiply_wide = nullptr,
                                    .multiply_unpacked = nullptr,
                                    .store = store,
                                    .add = add,
                                    .gate_silu = gate<gate_activation::silu>,
                                    .gate_gelu_tanh = gate<gate_activation::gelu_tanh>};

inline constexpr product_kernel bf16 = [] {
  product_kernel k = f32;
  k.line_inputs = 2;
  k.multiply = multiply_bf16;
  k.widen = widen;
  k.multiply_wide = multiply;
  return k;
}();

}  // namespace portable
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
