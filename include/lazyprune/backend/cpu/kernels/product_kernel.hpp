// SPDX-License-Identifier: MIT
// What one instruction set brings to the product of activations (rows, inputs) and a packed weight: a handful of functions on one tile.
//
// A tile is a strip of a few rows times the 32 outputs of two neighbouring panels of the weight (packed_matrix.hpp has their layout).
// Every sum stays in one lane of one register, and the order of its additions depends on the inputs' number alone: one chain of fused
// multiply-adds (AVX2, AVX-512), pairs with the second product first (VDPBF16PS), two chains of 16 in each 32 inputs (TDPBF16PS). Where it
// is cut, it goes on from what was stored: so neither the blocks, nor the other rows, nor the threads change a bit of it.
#pragma once

#include <cstddef>

#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace kernels {

inline constexpr std::size_t panel_outputs = 16;
inline constexpr std::size_t tile_outputs = 2 * panel_outputs;
inline constexpr std::size_t line_bytes = 64;        // of a panel: one f32 or two bf16 inputs of each of its outputs
inline constexpr std::size_t unpacked_stride = 256;  // the slots of a block of keys; known here, so that rows are at fixed distances

/// Where in a panel the number of an input and an output is, in bytes; with output 0: where the lines from that input on begin.
constexpr std::size_t panel_offset(dtype type, std::size_t input, std::size_t output) {
  return type == dtype::f32 ? input * line_bytes + output * 4 : input / 2 * line_bytes + output * 4 + input % 2 * 2;
}

/// What is read after a tile: while it is computed, `step` bytes from `from` on are prefetched into L2 with each of its inputs.
struct prefetch_run {
  const std::byte* from;
  std::size_t step;
};

/// For a tile that nothing is prefetched for. A kernel does not ask whether there is something: it prefetches `cached` again and again,
/// which is best in a cache, since an address that is not mapped would be looked for every time.
inline prefetch_run no_prefetch(const void* cached) { return {static_cast<const std::byte*>(cached), 0}; }

struct tile_mode {
  bool more;  // on top of what is in the sums
  prefetch_run next;
};

struct product_kernel {
  std::size_t strip;        // rows of a tile at most
  std::size_t granule;      // packed rows are padded to a multiple of this
  std::size_t element;      // bytes of a packed activation
  std::size_t line_inputs;  // inputs in a line of a panel
  std::size_t group;        // neighbouring tiles of the weight that strips meet in turn
  bool strip_in_l1;         // what should stay in L1 meanwhile: the strip; otherwise the group's weights, in L2

  /// Around a thread's tiles.
  void (*enter)();
  void (*leave)();

  /// x (rows <= strip, inputs), rows `stride` floats apart, into (depth, rows padded), padded with zeros to `depth` inputs: in the order in
  /// which `multiply` reads it. May write up to a line more.
  void (*pack)(const float* x, std::size_t stride, std::size_t rows, std::size_t inputs, std::size_t depth, std::byte* packed);

  /// sums (rows, 32) = a packed strip times the lines of both panels, `depth` inputs of each. The mode is a reference, since
  /// small tiles are many calls, and by value it does not fit into the registers for arguments.
  void (*multiply)(const std::byte* packed, std::size_t rows, const std::byte* first, const std::byte* second, std::size_t depth,
                   float* sums, const tile_mode& mode);

  /// Lines of a bf16 panel, `depth` inputs of each output, as lines of an f32 one; then `multiply_wide` takes the place of `multiply`, and
  /// gives its bits. Null where `multiply` loses nothing by widening them itself, every time.
  void (*widen)(const std::byte* lines, std::size_t depth, float* wide);
  void (*multiply_wide)(const std::byte* packed, std::size_t rows, const std::byte* first, const std::byte* second, std::size_t depth,
                        float* sums, const tile_mode& mode);

  /// `multiply` by f32 panels with x (rows, depth) as it is, `unpacked_stride` floats from row to row; the same bits. Null where that is
  /// not faster than to pack it.
  void (*multiply_unpacked)(const float* x, std::size_t rows, const std::byte* first, const std::byte* second, std::size_t depth,
                            float* sums, bool more);

  /// out (rows, 32) = sums + bias (32), or += that.
  void (*store)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);
  void (*add)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);

  /// out (rows, 16) = silu, or GELU, of (first half of the sums + bias) * (second half + bias).
  void (*gate_silu)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);
  void (*gate_gelu_tanh)(const float* sums, std::size_t rows, const float* bias, float* out, std::size_t stride);

  constexpr std::size_t padded(std::size_t rows) const { return (rows + granule - 1) / granule * granule; }
};

/// For kernels that have nothing to prepare.
inline void nothing() {}

inline void prefetch_l2(const std::byte* line) { __builtin_prefetch(line, 0, 2); }

// e^x = 2^n e^rest: see exp() in the kernels.
inline constexpr float exp_limit = 170.0f;  // both sides of it are infinity, or 0; 2^n fits in two factors
inline constexpr float log2_e = 1.44269504088896341f;
inline constexpr float log_2_upper = 0.693359375f, log_2_lower = -2.12194440e-4f;
inline constexpr float exp_terms[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

// (1 + tanh(y)) / 2 = 1 / (1 + e^-2y), so that GELU's approximation is x / (1 + e^(x (linear + cubic x^2))).
inline constexpr float gelu_linear = -1.59576912160573071f;  // -2 sqrt(2 / pi)
inline constexpr float gelu_cubic = gelu_linear * 0.044715f;

}  // namespace kernels
}  // namespace v0
}  // namespace lazyprune
