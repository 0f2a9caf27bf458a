// SPDX-License-Identifier: MIT
// Products in AMX. Four tile registers have 16 x 16 sums each, two have rows, and two have weights. A register of weights has 16
// half lines of a tile: 32 inputs of 16 outputs. Packing rounds the rows to bf16.
// A product of two registers takes 16 cycles, and each register that is loaded is used in two products. So four products, in 64 cycles,
// load 2 KiB of rows and 2 KiB of weights. L2 cannot deliver both in this time. So rows should stay in L1. A strip reads each weight only
// once, so weights should not take L1's room.
#pragma once

#include <lazyprune/backend/cpu/kernels/avx512_bf16/product.hpp>

#define LAZYPRUNE_AMX LAZYPRUNE_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#define LAZYPRUNE_AMX_INLINE LAZYPRUNE_AMX __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace lazyprune {
inline namespace v0 {
namespace kernels {
namespace amx {

inline constexpr std::size_t register_rows = 16, register_inputs = 32;
inline constexpr std::size_t strip = 2 * register_rows;
inline constexpr std::size_t register_bytes = register_rows * cache_line;

/// Configures all eight registers as 16 rows of 64 bytes.
LAZYPRUNE_AMX inline void enter() {
  alignas(64) std::uint8_t setup[64] = {1};  // palette 1
  for (int i = 0; i < 8; ++i) {
    setup[16 + 2 * i] = cache_line;
    setup[48 + i] = register_rows;
  }
  asm volatile("" : : "r"(setup) : "memory");  // otherwise GCC 12 thinks that nobody reads `setup`
  _tile_loadconfig(setup);
}

LAZYPRUNE_AMX inline void leave() { _tile_release(); }

/// The packed order is (depth / 32, rows padded to 16 or 32, 32). Padding rows repeat the last row.
LAZYPRUNE_AMX inline void pack(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth,
                               std::byte* packed) {
  const std::size_t padded = rows <= register_rows ? register_rows : strip;
  for (std::size_t k = 0; k < depth; k += register_inputs)
    for (std::size_t r = 0; r < padded; ++r, packed += cache_line)
      _mm512_storeu_si512(packed, avx512_bf16::load_rounded(x + (r < rows ? r : rows - 1) * stride + k, k < inputs ? inputs - k : 0));
}

inline float packed_number(const std::byte* packed, std::size_t padded, std::size_t row, std::size_t input) {
  std::uint16_t bits;
  const std::size_t place = (input / register_inputs * padded + row) * register_inputs + input % register_inputs;
  std::memcpy(&bits, packed + place * sizeof bits, sizeof bits);
  return float_of_bf16(bits);
}

inline constexpr std::size_t sum_row_bytes = tile_outputs * sizeof(float);
inline constexpr std::size_t step_bytes = 2 * register_bytes;  // of a tile of weights, for the inputs of a register

/// Sets the four registers of sums to 0.
LAZYPRUNE_AMX_INLINE void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// Adds the products of 32 inputs to the sums. `both`: whether the strip has more than 16 rows. If `Streams` is true, weights are loaded
/// with a non-temporal hint, which tells L1 not to keep them.
template <bool Streams>
LAZYPRUNE_AMX_INLINE void add_products(const std::byte* packed, const std::byte* tile, bool both) {
  if constexpr (Streams)
    _tile_stream_loadd(6, tile, line_bytes);
  else
    _tile_loadd(6, tile, line_bytes);
  _tile_loadd(4, packed, cache_line);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Streams)
    _tile_stream_loadd(7, tile + cache_line, line_bytes);
  else
    _tile_loadd(7, tile + cache_line, line_bytes);
  _tile_dpbf16ps(1, 4, 7);
  if (both) {
    _tile_loadd(5, packed + register_bytes, cache_line);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

LAZYPRUNE_AMX_INLINE void store_sums(float* sums, bool both) {
  float* const lower = sums + register_rows * tile_outputs;
  _tile_stored(0, sums, sum_row_bytes);
  _tile_stored(1, sums + half_outputs, sum_row_bytes);
  if (both) {
    _tile_stored(2, lower, sum_row_bytes);
    _tile_stored(3, lower + half_outputs, sum_row_bytes);
  }
}

/// Unless `Streams` is true, weights are prefetched into L1. See add_products.
template <bool Streams>
LAZYPRUNE_AMX inline void multiply_tiles(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                                         const tile_mode& mode) {
  const bool both = rows > register_rows;
  prefetch_run next = mode.next;
  asm volatile("" ::: "memory");  // needed because the compiler does not know which memory the tile loads read
  clear_sums();
  if (mode.more) {
    _tile_loadd(0, sums, sum_row_bytes);
    _tile_loadd(1, sums + half_outputs, sum_row_bytes);
    if (both) {
      float* const lower = sums + register_rows * tile_outputs;
      _tile_loadd(2, lower, sum_row_bytes);
      _tile_loadd(3, lower + half_outputs, sum_row_bytes);
    }
  }
  for (std::size_t k = 0; k < depth; k += register_inputs, tile += step_bytes) {
    if constexpr (!Streams)
      for (std::size_t at = mode.ahead; at < mode.ahead + step_bytes; at += cache_line)
        _mm_prefetch(reinterpret_cast<const char*>(tile + at), _MM_HINT_T0);
    for (const std::byte* end = next.from + next.step * register_inputs; next.from < end; next.from += cache_line) prefetch_l2(next.from);
    add_products<Streams>(packed, tile, both);
    packed += (both ? 2 : 1) * register_bytes;
  }
  store_sums(sums, both);
  asm volatile("" ::: "memory");
}

LAZYPRUNE_AMX inline void multiply(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                                   const tile_mode& mode) {
  (mode.ahead == 0 ? multiply_tiles<true> : multiply_tiles<false>)(packed, rows, tile, depth, sums, mode);
}

inline constexpr product_kernel bf16 = [] {
  product_kernel k = avx512_bf16::bf16;
  k.strip = strip;
  k.granule = register_rows;
  k.ahead = 64 * line_bytes;
  k.enter = enter;
  k.leave = leave;
  k.pack = pack;
  k.pack_rounded = nullptr;  // packing only moves whole lines, so the softmax writes them in place
  k.packed_number = packed_number;
  k.multiply = multiply;
  return k;
}();

}  // namespace amx
}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
