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
  std::size_t pass_rows = 512;                   // about the most rows that share one pass over the weights
  std::size_t group = 8;                         // tiles in a block, at most
  std::size_t inputs = 1024;                     // inputs of a block, at most
  std::size_t weights = std::size_t{384} << 10;  // bytes of weights that stay in L2: those of a block and of the next one

  // If a product has several strips, its weights are prefetched from memory into L2, and from there into L1 this many bytes ahead.
  std::size_t ahead = 0;

  // A product of one strip reads each weight once.
  std::size_t stream_ahead = 0;  // how many bytes ahead its weights are prefetched into L1
  std::size_t next_tile = 0;     // bytes of the next tile that are prefetched while the sums of a tile are used
  std::size_t far_rows = 0;      // strips of this many rows or more also prefetch into L2; 0: none do
  std::size_t far = 0;           // how many bytes ahead they prefetch into L2

  friend bool operator==(const product_tuning&, const product_tuning&) = default;
};

/// Returns the numbers for products with weights of this type on an instruction set of a processor.
inline product_tuning tuning_of(isa path, dtype weights, const detail::processor& here = detail::this_processor()) {
  const kernels::product_kernel& kernel = kernels::kernels_of(path).product(weights);
  product_tuning t;
  t.ahead = t.stream_ahead = kernel.ahead;
  t.weights = here.l2 * 3 / 4;  // the rest is for sums and rows
  // The larger a group, the more tiles use a strip while it is in a cache. The sums of a group's tiles must also fit.
  t.group = path == isa::portable ? 2 : path == isa::avx2 ? 4 : 8;
  // A strip of rows stays in L1, because it is read for every tile. AMX reads 32 rows for every tile, which need so much of L1 that blocks
  // would be short. There the weights of a group stay in L2.
  const std::size_t strip_input = kernel.strip * kernel.element, group_input = t.group * kernels::line_bytes / kernel.line_inputs;
  t.inputs =
      std::max<std::size_t>(32, path == isa::amx && weights != dtype::f32 ? here.l2 / 4 / group_input : here.l1 * 3 / 4 / strip_input);
  // AMD's cores prefetch one stream of memory well without help, as long as they run far enough ahead. With many rows they do not, because
  // the instructions for the lines between fill their queues. Measured on Zen 4.
  if (here.amd && path != isa::portable) {
    t.stream_ahead = kernels::line_bytes;
    t.next_tile = 32 * kernels::cache_line;
    t.far_rows = 5;
    t.far = 64 * kernels::line_bytes;
  }
  return t;
}

}  // namespace v0
}  // namespace lazyprune
