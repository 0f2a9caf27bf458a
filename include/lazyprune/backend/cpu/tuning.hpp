// SPDX-License-Identifier: MIT
// The numbers that decide how products and attention are cut into blocks, and what is prefetched. Those in structs change how long the work
// takes, but not its results. bench.tuning compares some of them with others. bench/README.md ("How products are cut and prefetched") has
// the measurements behind them, as far as there are any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>

namespace lazyprune {
inline namespace v0 {

/// How products with operands of one type are cut and prefetched.
struct product_tuning {
  std::size_t pass_rows = 512;        // about the most rows that share one pass over the weights
  std::size_t group = 8;              // tiles in a block, at most; an even number
  std::size_t inputs = 1024;          // inputs of a block, at most; a multiple of 32
  std::size_t weight_bytes = 0;       // bytes of weights that stay in L2: those of a block and of the next one
  std::size_t unpacked_inputs = 256;  // of a block, if a product of one strip unpacks quantized weights; a tile's 9 to 16 KiB stay in L1

  // Weights are prefetched into L1 this many bytes ahead. If a product has several strips, a block prefetches the weights of the next
  // block into L2. On AMX, 0 means that these weights are loaded with a non-temporal hint, and not prefetched into L1.
  std::size_t ahead = 0;

  // A product of one strip reads each weight once, and from memory. If the strip has fewer than `many_rows` rows, or if `far` is not 0, its
  // weights are prefetched into L1 `stream_ahead` bytes ahead, instead of `ahead`.
  std::size_t many_rows = 1;  // 1: no strip has fewer
  std::size_t stream_ahead = 0;
  std::size_t far = 0;        // strips of `many_rows` or more also prefetch into L2, this many bytes ahead; 0: they do not
  std::size_t next_tile = 0;  // bytes of the next tile that are prefetched while the sums of a tile are used

  std::size_t widening_strips = 4;  // with this many strips or more, weights are widened once for all strips of a task
  std::size_t many_strips = 8;      // with this many strips or more, products also prefetch rows, because L2 cannot keep all strips
};

/// How attention is cut.
struct attention_tuning {
  std::size_t strips = 16;            // about the number of strips in a full task: they share a block of keys while it is in a cache
  std::size_t unpacked_bytes = 8192;  // of values that one strip unpacks at a time; they stay in L1, beside what is prefetched
  std::size_t reduced_tokens = 512;   // tokens in a task that reduces the probabilities of several heads
};

// If a layer computes only a few rows, attention has too few tasks for many threads. Its keys are then cut into segments. This changes the
// order of additions, so these numbers are the same on every machine.
inline constexpr std::size_t few_attended_rows = 2;
inline constexpr std::size_t segment_blocks = 4;  // blocks of keys in a segment

// Copying the key and the value of a token for one key/value head takes about as long as so many pairs of a query and a key. This decides
// whether attention reads keys in the order of their tokens, so the number is the same on every machine, too. Measured on Zen 5 in bf16.
inline constexpr std::ptrdiff_t copied_token_pairs = 64;

/// Returns the numbers for products with these kernels on an instruction set of a processor.
inline product_tuning tuning_of(isa path, const kernels::product_kernel& kernel, const detail::processor& here = detail::this_processor()) {
  const bool bf16 = &kernel == &kernels::kernels_of(path).bf16;
  product_tuning t;
  t.ahead = kernel.ahead;
  t.weight_bytes = here.l2 * 3 / 4;  // the rest of L2 is for sums and rows
  // The larger a group, the more tiles use a strip while it is in a cache. The sums of a group's tiles must also fit.
  t.group = path == isa::portable ? 2 : path == isa::avx2 ? 4 : 8;
  // A strip of rows stays in L1, because it is read for every tile.
  t.inputs = std::max<std::size_t>(32, here.l1 * 3 / 4 * kernels::pack_inputs / (kernel.strip * kernel.unit_bytes) / 32 * 32);
  // AMX computes so fast that the rows and the sums of a pass must fit into L2, too, beside the weights of two blocks. These numbers follow
  // from the sizes of the caches. They have not been measured.
  const bool tile_registers = path == isa::amx && bf16;
  if (tile_registers) {
    t.ahead = 0;
    t.stream_ahead = kernel.ahead;
    t.many_rows = std::numeric_limits<std::size_t>::max();  // a weight that comes from memory is prefetched, whatever the rows
    const auto most_rows = [&] {
      const std::size_t of_row = t.inputs * kernel.unit_bytes / kernels::pack_inputs + t.group * kernels::tile_outputs * sizeof(float);
      const std::size_t weights = 2 * t.group * t.inputs * kernels::line_bytes / kernel.line_inputs, room = here.l2 * 3 / 4;
      return room > weights ? (room - weights) / of_row / kernel.strip * kernel.strip : 0;
    };
    const std::size_t least_rows = 4 * kernel.strip;
    while (most_rows() < least_rows && t.inputs > 256) t.inputs -= 32;
    t.pass_rows = std::clamp<std::size_t>(most_rows(), least_rows, 512);
  }
  // AMD's cores prefetch one stream of memory well without help if they run far enough ahead of it. With many rows they do not run ahead,
  // because the instructions between two lines fill their queues. Measured on Zen 4.
  if (here.amd && path != isa::portable && !tile_registers && !kernel.int8) {
    const bool pairs = path == isa::avx512_bf16 && bf16;
    t.many_rows = pairs ? 2 : 5;
    t.stream_ahead = kernels::line_bytes;
    t.next_tile = 32 * kernels::cache_line;
    if (pairs) t.far = 64 * kernels::line_bytes;
    if (pairs) t.group = 2;  // measured on Zen 5: 16 to 128 rows gain 1 to 3 %
  }
  if (here.amd && path != isa::portable && kernel.int8) t.group = 2;  // measured on Zen 5: 9 to 24 rows of Q8_0 gain 6 %
  return t;
}

/// The numbers for each type of operands: float or bf16 by the type of the weights, or 8 bits.
struct product_tunings {
  product_tuning f32, bf16, int8;
};

/// Returns the numbers for all products on an instruction set of a processor.
inline product_tunings tuning_of(isa path, const detail::processor& here = detail::this_processor()) {
  const kernels::kernel_set& set = kernels::kernels_of(path);
  const kernels::product_kernel* const int8 = kernels::int8_kernel_of(path, here);
  return {tuning_of(path, set.f32, here), tuning_of(path, set.bf16, here), int8 ? tuning_of(path, *int8, here) : product_tuning{}};
}

}  // namespace v0
}  // namespace lazyprune
