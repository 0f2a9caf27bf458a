// SPDX-License-Identifier: MIT
// The numbers that decide how a product is cut into blocks, and what is prefetched. They change how long a product takes, but not its
// results. bench/README.md ("How products are cut and prefetched") has the measurements that chose them.
#pragma once

#include <algorithm>
#include <cstddef>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>

namespace lazyprune {
inline namespace v0 {

/// How products with weights of one type are cut and prefetched.
struct product_tuning {
  std::size_t pass_rows = 512;   // about the most rows that share one pass over the weights
  std::size_t group = 8;         // tiles in a block, at most; an even number
  std::size_t inputs = 1024;     // inputs of a block, at most; a multiple of 32
  std::size_t weight_bytes = 0;  // bytes of weights that stay in L2: those of a block and of the next one

  // Weights are prefetched into L1 this many bytes ahead. If a product has several strips, a block prefetches the weights of the next
  // block into L2.
  std::size_t ahead = 0;

  // A product of one strip reads each weight once, and from memory. If the strip has fewer than `many_rows` rows, or if `far` is not 0, its
  // weights are prefetched into L1 `stream_ahead` bytes ahead, instead of `ahead`.
  std::size_t many_rows = 1;  // 1: no strip has fewer
  std::size_t stream_ahead = 0;
  std::size_t far = 0;        // strips of `many_rows` or more also prefetch into L2, this many bytes ahead; 0: they do not
  std::size_t next_tile = 0;  // bytes of the next tile that are prefetched while the sums of a tile are used
};

/// Returns the numbers for products with weights of this type on an instruction set of a processor.
inline product_tuning tuning_of(isa path, dtype type, const detail::processor& here = detail::this_processor()) {
  const kernels::product_kernel& kernel = kernels::kernels_of(path).product(type);
  product_tuning t;
  t.ahead = kernel.ahead;
  t.weight_bytes = here.l2 * 3 / 4;  // the rest of L2 is for sums and rows
  // The larger a group, the more tiles use a strip while it is in a cache. The sums of a group's tiles must also fit.
  t.group = path == isa::portable ? 2 : path == isa::avx2 ? 4 : 8;
  // A strip of rows stays in L1, because it is read for every tile. AMX reads 32 rows for every tile. In L1 they would leave room only for
  // short blocks, so there a group's weights stay in L2 instead.
  const std::size_t strip_input = kernel.strip * kernel.element, group_input = t.group * kernels::line_bytes / kernel.line_inputs;
  const bool tile_registers = path == isa::amx && type != dtype::f32;
  const std::size_t inputs = tile_registers ? here.l2 / 4 / group_input : here.l1 * 3 / 4 / strip_input;
  t.inputs = std::max<std::size_t>(32, inputs / 32 * 32);
  // AMD's cores prefetch one stream of memory well without help if they run far enough ahead of it. With many rows they do not run ahead,
  // because the instructions between two lines fill their queues. Measured on Zen 4.
  if (here.amd && path != isa::portable) {
    const bool pairs = path == isa::avx512_bf16 && type != dtype::f32;
    t.many_rows = pairs ? 2 : 5;
    t.stream_ahead = kernels::line_bytes;
    t.next_tile = 32 * kernels::cache_line;
    if (pairs) t.far = 64 * kernels::line_bytes;
  }
  return t;
}

}  // namespace v0
}  // namespace lazyprune
