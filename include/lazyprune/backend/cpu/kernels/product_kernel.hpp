// SPDX-License-Identifier: MIT
// The functions of one instruction set for the product of activations (rows, inputs) and a packed weight. A call multiplies a strip, which
// is a few rows, by one tile of the weight.
//
// A tile has 32 outputs. It consists of lines, in the order of the inputs. A line has one input (f32) or two inputs (bf16) of each output,
// and fills two cache lines. The first has the outputs 0 to 15, and the second has the outputs 16 to 31. We call these the halves of the
// tile. So a tile is one stream of memory, which processors prefetch well. The unpacked weights of kernels of 8 bits have another layout
// (int8_tile). In bf16, the first of two inputs is in the lower half of 32 bits.
//
// Every sum stays in one lane of one register. The order of its additions depends only on the instructions and the number of inputs. AVX2
// and AVX-512 add one chain of fused multiply-adds. VDPBF16PS adds pairs of products, the second product first. TDPBF16PS adds two chains
// of 16 products for each 32 inputs. Kernels of 8 bits add the products of a group of inputs as integers, which is exact. For each 32
// inputs, let P_g be the sum of group g, of products of activations' codes and of weights' codes minus their offset. Let X_g be the sum of
// these activations' codes. Then fused multiply-adds compute, in this order,
//
//   part = P_0 scale_0 - X_0 base_0 + P_1 scale_1 - X_1 base_1,   sum += part * the activations' scale
//
// without X_g if the format has no least. The portable kernels round products, too. If the inputs are cut into blocks, the sum continues
// from its stored value. So blocks, other rows and threads do not change the bits of a sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lazyprune/backend/block_format.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

inline constexpr std::size_t half_outputs = 16;
inline constexpr std::size_t tile_outputs = 2 * half_outputs;
inline constexpr std::size_t cache_line = 64;              // bytes
inline constexpr std::size_t line_bytes = 2 * cache_line;  // bytes of a line of a tile
inline constexpr std::size_t pack_inputs = 32;             // packed inputs can be written this many at a time
inline constexpr std::size_t unpacked_stride = 256;        // the slots of a block of keys; a constant, so that rows are at fixed distances

/// Returns the offset in a tile, in bytes, of the weight of this input for this output. With output 0 and the first input of a line, this
/// is the offset of the line.
constexpr std::size_t tile_offset(dtype type, std::size_t input, std::size_t output) {
  return type == dtype::f32 ? input * line_bytes + output * 4 : input / 2 * line_bytes + output * 4 + input % 2 * 2;
}

/// The memory to prefetch into L2 while a strip is multiplied by a tile: `step` bytes for each input, from `from` on. At each line of the
/// tile, kernels prefetch one cache line. Only the kernels of AVX512-BF16 prefetch two, if the bytes of a line's inputs are more than one.
/// Kernels of 8 bits prefetch one for every four inputs.
struct prefetch_run {
  const std::byte* from;
  std::size_t step;
};

/// Returns a prefetch_run that prefetches nothing new. A kernel does not test for this case, but prefetches `cached` again and again. So
/// pass an address whose line is in a cache. An unmapped address would be slow, because the processor would look it up every time.
inline prefetch_run no_prefetch(const void* cached) { return {static_cast<const std::byte*>(cached), 0}; }

struct tile_mode {
  bool more;  // true: adds to the numbers in `sums`
  prefetch_run next;
  std::size_t ahead;  // the line this many bytes after the line that is read is prefetched into L1; 0: AMX loads weights with a hint to
                      // keep them out of L1
  const block_format* format = nullptr;  // of quantized weights, else null; only kernels of 8 bits read it
};

struct panel_layout;

struct product_kernel {
  std::size_t strip;        // rows that a call multiplies, at most
  std::size_t granule;      // packed rows are padded to a multiple of this
  std::size_t unit_bytes;   // bytes of pack_inputs packed activations of a row
  std::size_t line_inputs;  // inputs in a line of a tile
  bool int8;                // whether activations are packed as 8 bits (int8_rows.hpp); such kernels multiply only by quantized weights
  std::size_t ahead;        // how far ahead attention and, by default, products prefetch weights into L1

  /// A thread calls `enter` before and `leave` after it multiplies.
  void (*enter)();
  void (*leave)();

  /// Packs x (rows <= strip, inputs) into (depth, padded rows), in the order in which `multiply` reads them. The rows of x are `stride`
  /// floats apart. Zeros pad the inputs to `depth`. Inputs from a multiple of pack_inputs on are packed right after the inputs before them,
  /// so threads may pack different inputs of a strip.
  void (*pack)(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth, std::byte* packed);

  /// Packs x (rows, depth), which is already bf16. Its rows are `stride` numbers apart. `depth` is a multiple of 32. Null if `pack` writes
  /// floats. Also null if packing only moves whole lines of 32 inputs: line i of row r becomes line i * padded(rows) + r.
  void (*pack_rounded)(const std::uint16_t* x, std::size_t stride, std::size_t rows, std::size_t depth, std::byte* packed);

  /// Returns a number that `pack` wrote, of a strip whose rows are padded to `padded`.
  float (*packed_number)(const std::byte* packed, std::size_t padded, std::size_t row, std::size_t input);

  /// sums (rows, 32) = a packed strip times `depth` inputs of a tile, or sums += this product (tile_mode). `mode` is passed by reference,
  /// because its value does not fit into the registers for arguments, and small products need many calls.
  void (*multiply)(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums, const tile_mode& mode);

  /// Unpacks quantized weights for `multiply`: to lines of a bf16 tile, or to an int8_tile. `inputs` is a multiple of the block's. Null if
  /// the tiles are f32.
  void (*unpack)(const panel_layout& layout, const std::byte* panel, std::size_t inputs, std::byte* tile);
  /// Returns the bytes of pack_inputs unpacked inputs.
  std::size_t (*unpacked_bytes)(const block_format& format);

  /// Does the same as `unpack` and `multiply` for at most `panel_rows` rows, with the same bits. The unpacked weights stay in registers. The
  /// more rows it takes, the longer programs take to compile.
  std::size_t panel_rows;  // at most `strip`; 0: there is no such function
  void (*multiply_panels)(const panel_layout& layout, const std::byte* packed, std::size_t rows, const std::byte* panels,
                          std::size_t inputs, float* sums, const tile_mode& mode);

  /// Widens lines of a bf16 tile, `depth` inputs of each output, to lines of an f32 tile. `multiply_wide` then replaces `multiply`, with
  /// the same bits. Null if `multiply` is as fast when it widens the lines itself every time.
  void (*widen)(const std::byte* tile, std::size_t depth, float* wide);
  void (*multiply_wide)(const std::byte* packed, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums,
                        const tile_mode& mode);

  /// Does the same as `multiply` with an f32 tile, with the same bits, but x (rows, depth) is not packed. Its rows are `unpacked_stride`
  /// floats apart. Null if packing x first is as fast.
  void (*multiply_unpacked)(const float* x, std::size_t rows, const std::byte* tile, std::size_t depth, float* sums, bool more);

  /// Unpack `inputs` inputs of keys or values (kv_layout.hpp) to lines of a tile. In q8_0, `inputs` is a multiple of 32, and `values` says
  /// whether scales belong to inputs, as those of values do, or to outputs. Null if this type is unpacked to tiles of another type.
  void (*unpack_f16)(const std::byte* lines, std::size_t inputs, std::byte* tile);
  void (*unpack_q8_0)(const std::byte* panels, std::size_t inputs, bool values, std::byte* tile);

  /// out (rows, 32) = sums + bias (32), or out += sums + bias.
  void (*store)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);
  void (*add)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);

  /// out (rows, 16) = act(g) * u. g is the first half of sums + bias, and u is the second half. act is silu or GELU.
  void (*gate_silu)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);
  void (*gate_gelu_tanh)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);

  constexpr std::size_t padded(std::size_t rows) const { return (rows + granule - 1) / granule * granule; }
};

/// `packed_number` of kernels that pack floats in the order (depth, rows).
inline float packed_float(const std::byte* packed, std::size_t padded, std::size_t row, std::size_t input) {
  float number;
  std::memcpy(&number, packed + (input * padded + row) * sizeof number, sizeof number);
  return number;
}

/// `unpacked_bytes` of kernels that multiply by bf16.
inline std::size_t unpacked_bf16_bytes(const block_format&) { return pack_inputs * tile_outputs * 2; }

/// `enter` and `leave` of kernels that have nothing to prepare.
inline void nothing() {}

/// Always inlined, because GCC 12 removes calls of a function that only prefetches.
__attribute__((always_inline)) inline void prefetch_l2(const std::byte* line) { __builtin_prefetch(line, 0, 2); }

// e^x = 2^n e^rest: see exp() in shared/exponential.inc.
inline constexpr float exp_limit = 170.0f;  // in float e^170 is infinity and e^-170 is 0; up to here, 2^n is the product of two floats
inline constexpr float log2_e = 1.44269504088896341f;
inline constexpr float log_2_upper = 0.693359375f, log_2_lower = -2.12194440e-4f;
inline constexpr float exp_terms[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

// (1 + tanh(y)) / 2 = 1 / (1 + e^-2y), so GELU's approximation is x / (1 + e^(x (linear + cubic x^2))).
inline constexpr float gelu_linear = -1.59576912160573071f;  // -2 sqrt(2 / pi)
inline constexpr float gelu_cubic = gelu_linear * 0.044715f;

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
