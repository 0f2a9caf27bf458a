// SPDX-License-Identifier: MIT
// Kernels of everything but products and attention. Each is bound by the memory that it reads and writes once; a block is a row, or a piece
// of one, whose neighbouring numbers are neighbouring threads'.
//
// Kernels state what they may take: registers of a thread, shared memory of a block, and how many blocks of so many threads that leaves
// room for on a multiprocessor of compute capability 8.0, which has 65,536 registers, 164 KiB of which each block takes one more than it
// asks for, and 2,048 threads. The tests read these lines: what ptxas says is held against the first number, launches against the others.
// What waits for memory wants every thread that there is room for:
/// budget of every other kernel: 32 registers, 32 bytes of shared memory, 8 blocks of 256 threads
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <lazyprune/backend/cuda/device.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

inline constexpr unsigned all_lanes = 0xffffffffu, warp_lanes = 32;

/// Rows of the device, `stride` numbers apart, as kernels get them.
template <class T>
struct row_span {
  global<T> data;
  std::size_t stride;

  __device__ __forceinline__ global<T> row(std::size_t r) const { return data + r * stride; }
};

/// Of what type a stored number is: float, or bf16 as its bits.
__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(std::uint16_t bits) { return widen(bits); }
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return round_to_bf16(value);
}

/// The sum of a warp's numbers, in all of its lanes: the same bits in each.
__device__ __forceinline__ float warp_sum(float value) {
  for (unsigned by = warp_lanes / 2; by > 0; by /= 2) value += __shfl_xor_sync(all_lanes, value, by);
  return value;
}
__device__ __forceinline__ float warp_most(float value) {
  for (unsigned by = warp_lanes / 2; by > 0; by /= 2) value = fmaxf(value, __shfl_xor_sync(all_lanes, value, by));
  return value;
}

/// The same of a block's, by way of `room`, a number of shared memory for each warp, which may be used again after the next barrier.
template <class Join>
__device__ __forceinline__ float block_join(float of_the_warp, shared<float> room, Join join) {
  if (threadIdx.x % warp_lanes == 0) room[threadIdx.x / warp_lanes] = of_the_warp;
  __syncthreads();
  float all = room[0];
  for (unsigned warp = 1; warp < blockDim.x / warp_lanes; ++warp) all = join(all, room[warp]);
  return all;
}
__device__ __forceinline__ float block_sum(float value, shared<float> room) {
  return block_join(warp_sum(value), room, [](float a, float b) { return a + b; });
}
__device__ __forceinline__ float block_most(float value, shared<float> room) {
  return block_join(warp_most(value), room, [](float a, float b) { return fmaxf(a, b); });
}

/// out[r] = table[ids[r]] * scale: a block each.
template <class Stored>
__global__ void embed_rows(row_span<const Stored> table, global<const std::uint32_t> ids, float scale, std::size_t columns,
                           row_span<float> out) {
  const global<const Stored> from = table.row(ids[blockIdx.x]);
  const global<float> to = out.row(blockIdx.x);
  for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) to[i] = to_float(from[i]) * scale;
}

/// out = x / sqrt(mean(x^2) + epsilon) * weight: a block a row, with a number of shared memory for each warp. out may be x.
template <class Scalar>
__global__ void norm_rows(row_span<const Scalar> x, global<const float> weight, float epsilon, std::size_t columns, row_span<Scalar> out) {
  const global<const float> from = x.row(blockIdx.x);
  float squares = 0;
  for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = from[i];
    squares += value * value;
  }
  const float root = sqrtf(block_sum(squares, shared_memory<float>(0)) / static_cast<float>(columns) + epsilon);
  const global<float> to = out.row(blockIdx.x);
  for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) to[i] = from[i] / root * weight[i];
}

/// out += x: a block a row.
template <class Scalar>
__global__ void add_rows(row_span<const Scalar> x, std::size_t columns, row_span<Scalar> out) {
  for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) out.row(blockIdx.x)[i] += x.row(blockIdx.x)[i];
}

/// x in bf16, with zeros from `columns` up to the width of out: a block a row.
template <class Scalar>
__global__ void round_rows(row_span<const Scalar> x, std::size_t columns, row_span<std::uint16_t> out) {
  for (std::size_t i = threadIdx.x; i < out.stride; i += blockDim.x)
    out.row(blockIdx.x)[i] = i < columns ? round_to_bf16(x.row(blockIdx.x)[i]) : std::uint16_t{0};
}

__device__ __forceinline__ float activated(gate_activation activation, float x) {
  if (activation == gate_activation::silu) return x / (1 + expf(-x));
  constexpr float root_of_2_over_pi = 0.7978845608028654f;
  return x / 2 * (1 + tanhf(root_of_2_over_pi * (x + 0.044715f * x * x * x)));
}

/// out = gate(x[.. ffn)) * x[ffn ..): a block a row of x (2 ffn) and out (ffn).
template <class Scalar>
__global__ void gate_rows(row_span<const Scalar> x, std::size_t ffn, gate_activation activation, row_span<Scalar> out) {
  const global<const float> from = x.row(blockIdx.x);
  const global<float> to = out.row(blockIdx.x);
  for (std::size_t i = threadIdx.x; i < ffn; i += blockDim.x) to[i] = activated(activation, from[i]) * from[ffn + i];
}

/// RoPE in place: a block a row, a thread a pair (i, i + half) of a head. table (positions, 2, half): cosines, sines.
template <class Scalar>
__global__ void rotate_rows(row_span<Scalar> x, std::size_t heads, std::size_t half, global<const std::uint32_t> positions,
                            global<const float> table) {
  const global<float> row = x.row(blockIdx.x);
  const global<const float> turn = table + positions[blockIdx.x] * 2 * half;
  for (std::size_t pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
    const std::size_t i = pair % half, at = pair / half * 2 * half + i;
    const float a = row[at], b = row[at + half], cosine = turn[i], sine = turn[half + i];
    row[at] = a * cosine - b * sine;
    row[at + half] = b * cosine + a * sine;
  }
}

/// Where a row comes from and where it goes, in the device's memory.
struct row_move {
  const void* from;
  void* to;
};

/// Each row of the list, a block each: from any type to any.
template <class From, class To>
__global__ void move_rows(global<const row_move> moves, std::size_t columns) {
  const row_move move = moves[blockIdx.x];
  const global<const From> from = static_cast<const From*>(move.from);
  const global<To> to = static_cast<To*>(move.to);
  for (std::size_t i = threadIdx.x; i < columns; i += blockDim.x) {
    if constexpr (std::is_same_v<From, To>)
      to[i] = static_cast<To>(from[i]);
    else
      to[i] = from_float<To>(to_float(from[i]));
  }
}

/// How many threads for rows of so many numbers: the same for the same number, since the order of sums follows from it.
inline unsigned threads_for(std::size_t columns) {
  const std::size_t warps = (columns + 4 * warp_lanes - 1) / (4 * warp_lanes);
  return warp_lanes * static_cast<unsigned>(std::min<std::size_t>(std::max<std::size_t>(warps, 1), 8));
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
