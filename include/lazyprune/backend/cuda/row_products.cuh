// SPDX-License-Identifier: MIT
// Products of few rows with a weight in bf16, as in a decode step. Such a product takes as long as the device needs to read the weight, so
// this kernel does everything else while it waits for memory: it adds the bias and the earlier output, and gates.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lazyprune/backend/cuda/elementwise.cuh>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// The arguments of multiply_rows.
struct row_product {
  row_span<const std::uint16_t> x;     // bf16 (rows, pitch), at a multiple of 16 bytes; zeros pad each row
  global<const std::uint16_t> weight;  // bf16 (outputs, pitch); zeros pad each row
  global<const float> bias;            // (outputs), or null
  any_rows out;                        // (rows, outputs), or (rows, outputs / 2) if the product is gated
  unsigned rows;                       // of x, at most Rows
  unsigned pitch;                      // numbers from one row of the weight, or of x, to the next, a multiple of 8
  unsigned results;                    // numbers in a row of `out`
  bool add;                            // adds to `out`, which is then float
  gate_activation activation;          // of a gated product
};

/// A thread block of multiply_rows. Each of its warps computes one number of each row of `out`. Its shared memory holds the activations in
/// bf16 (Rows, pitch).
struct row_product_block {
  static constexpr unsigned threads = 256, warps = threads / warp_lanes;
  static constexpr std::size_t shared_bytes(std::size_t rows, std::size_t pitch) { return rows * pitch * sizeof(std::uint16_t); }
};

/// Returns sum + a b for eight bf16 numbers each.
__device__ __forceinline__ float add_products(uint4 a, uint4 b, float sum) {
  const auto two = [&](unsigned pair_a, unsigned pair_b) {
    sum += __uint_as_float(pair_a << 16) * __uint_as_float(pair_b << 16);
    sum += __uint_as_float(pair_a & 0xffff0000u) * __uint_as_float(pair_b & 0xffff0000u);
  };
  two(a.x, b.x), two(a.y, b.y), two(a.z, b.z), two(a.w, b.w);
  return sum;
}

/// Copies the activations to shared memory (Rows, pitch), with zeros after the last row.
template <unsigned Rows>
__device__ __forceinline__ void copy_to_shared(const row_product& p, shared<std::uint16_t> to) {
  LAZYPRUNE_UNROLL for (unsigned r = 0; r < Rows; ++r) {
    const global<const std::uint16_t> from = p.x.row(r < p.rows ? r : 0);
    for (unsigned at = 8 * threadIdx.x; at < p.pitch; at += 8 * blockDim.x)
      store(to + r * p.pitch + at, r < p.rows ? load<uint4>(from + at) : uint4{0, 0, 0, 0});
  }
}

/// out = x w^T + bias, or out += x w^T + bias. If Parts is 2, out = gate(first half of x w^T + bias) * second half. Grid (results /
/// row_product_block::warps, rounded up). Each warp computes one number of each row of `out`: it reads one row of the weight, or the two
/// rows that a gate joins. A lane takes eight adjacent weights at a time. It starts to load the next weights before it uses the last ones,
/// and the first ones before earlier work is done, because no kernel writes weights. The order of a row's additions does not depend on
/// Rows. The budgets are for 4096 inputs.
/// budget multiply_rows<1, 1>: 64 registers, 8192 bytes of shared memory, 4 blocks of 256 threads
/// budget multiply_rows<2, 1>: 64 registers, 16384 bytes of shared memory, 4 blocks of 256 threads
/// budget multiply_rows<4, 1>: 64 registers, 32768 bytes of shared memory, 4 blocks of 256 threads
/// budget multiply_rows<1, 2>: 64 registers, 8192 bytes of shared memory, 4 blocks of 256 threads
/// budget multiply_rows<2, 2>: 64 registers, 16384 bytes of shared memory, 4 blocks of 256 threads
/// budget multiply_rows<4, 2>: 80 registers, 32768 bytes of shared memory, 3 blocks of 256 threads
template <unsigned Rows, unsigned Parts>
__global__ void __launch_bounds__(row_product_block::threads, (Rows * Parts < 8 ? 4 : 3)) multiply_rows(row_product p) {
  constexpr unsigned piece = 8, together = 4 / Parts, step = piece * warp_lanes;
  const shared<std::uint16_t> x = shared_memory<std::uint16_t>(0);
  const unsigned lane = threadIdx.x % warp_lanes, result = blockIdx.x * row_product_block::warps + threadIdx.x / warp_lanes;
  const bool works = result < p.results;
  const global<const std::uint16_t> weight = p.weight + static_cast<std::size_t>(works ? result : 0) * p.pitch;
  const std::size_t to_part = static_cast<std::size_t>(p.results) * p.pitch;

  uint4 now[Parts][together], next[Parts][together];
  const auto fetch = [&](unsigned at, uint4(&to)[Parts][together]) {
    LAZYPRUNE_UNROLL for (unsigned part = 0; part < Parts; ++part) LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) to[part][j] =
        at + j * step < p.pitch ? load<uint4>(weight + part * to_part + at + j * step) : uint4{0, 0, 0, 0};
  };
  fetch(lane * piece, now);
  wait_for_earlier_work();
  copy_to_shared<Rows>(p, x);
  __syncthreads();
  if (!works) return;

  float sum[Parts][Rows] = {};
  for (unsigned at = lane * piece; at < p.pitch; at += together * step) {
    fetch(at + together * step, next);
    LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) {
      if (at + j * step >= p.pitch) continue;
      LAZYPRUNE_UNROLL for (unsigned r = 0; r < Rows; ++r) {
        const uint4 numbers = load<uint4>(x + r * p.pitch + at + j * step);
        LAZYPRUNE_UNROLL for (unsigned part = 0; part < Parts; ++part) sum[part][r] = add_products(now[part][j], numbers, sum[part][r]);
      }
    }
    LAZYPRUNE_UNROLL for (unsigned part = 0; part < Parts; ++part) LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) now[part][j] =
        next[part][j];
  }
  LAZYPRUNE_UNROLL for (unsigned r = 0; r < Rows; ++r) {
    LAZYPRUNE_UNROLL for (unsigned part = 0; part < Parts; ++part) {
      sum[part][r] = warp_sum(sum[part][r]);
      if (p.bias) sum[part][r] += p.bias[part * p.results + result];
    }
    if (lane != r || r >= p.rows) continue;
    if constexpr (Parts == 2)
      p.out.write(r, result, activated(p.activation, sum[0][r]) * sum[1][r]);
    else
      p.out.write(r, result, p.add ? p.out.floats.row(r)[result] + sum[0][r] : sum[0][r]);
  }
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
