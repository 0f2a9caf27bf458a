// SPDX-License-Identifier: MIT
// Kernels for everything except products and attention. Each kernel is bound by memory: it reads and writes its numbers once. A block has a
// row, or a piece of a row. A thread takes four adjacent numbers at a time, in one access if the alignment of the rows allows it. The next
// thread takes the next four.
//
// Each kernel states its budget: the registers of a thread, the shared memory of a block, and how many blocks of how many threads then fit
// on a multiprocessor of compute capability 8.0. Such a multiprocessor has 65,536 registers, 2,048 threads, and 164 KiB of shared memory.
// Each block takes 1 KiB of shared memory more than it asks for. The tests read the lines of the budgets. They compare the number of
// registers with ptxas's, and the other numbers with the launches. Kernels that wait for memory use all the threads that fit:
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

/// Rows in device memory, `stride` numbers apart, as an argument of kernels.
template <class T>
struct row_span {
  global<T> data;
  std::size_t stride;

  __device__ __forceinline__ global<T> row(std::size_t r) const { return data + r * stride; }
};

/// These functions convert a stored number (a float, or the bits of a bf16 number) to float, and back.
__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(std::uint16_t bits) { return widen(bits); }
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return round_to_bf16(value);
}

/// Return the sum, or the maximum, of a warp's numbers. All lanes get the same bits.
__device__ __forceinline__ float warp_sum(float value) {
  for (unsigned by = warp_lanes / 2; by > 0; by /= 2) value += __shfl_xor_sync(all_lanes, value, by);
  return value;
}
__device__ __forceinline__ float warp_most(float value) {
  for (unsigned by = warp_lanes / 2; by > 0; by /= 2) value = fmaxf(value, __shfl_xor_sync(all_lanes, value, by));
  return value;
}

/// Join the numbers of a thread block: block_sum adds them, and block_most takes the maximum. `room` is shared memory, one float for each
/// warp. It may be used again after the next barrier.
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

/// Four adjacent stored numbers.
template <class T>
using four_of = std::conditional_t<sizeof(T) == sizeof(float), float4, uint2>;

/// Returns true if every row of `columns` numbers can be read and written four numbers at a time.
template <class T>
__device__ __forceinline__ bool by_four(row_span<T> rows, std::size_t columns) {
  return fits<four_of<T>>(rows.data) && rows.stride % 4 == 0 && columns % 4 == 0;
}

/// Load, or store, four numbers of a row from `at` on. If `Wide` is true, they do so in one access. Otherwise numbers from `columns` on are
/// read as 0 and not written. load_packed leaves numbers in their stored type, which takes half as many registers for bf16.
template <bool Wide, class T>
__device__ __forceinline__ four_of<T> load_packed(global<const T> row, unsigned at, unsigned columns) {
  if constexpr (Wide) {
    return load<four_of<T>>(row + at);
  } else {
    const auto number = [&](unsigned i) { return i < columns ? static_cast<T>(row[i]) : T{}; };
    if constexpr (std::is_same_v<T, float>) {
      return {number(at), number(at + 1), number(at + 2), number(at + 3)};
    } else {
      const auto two = [&](unsigned i) { return number(i) | static_cast<unsigned>(number(i + 1)) << 16; };
      return {two(at), two(at + 2)};
    }
  }
}
__device__ __forceinline__ float4 unpacked(float4 four) { return four; }
__device__ __forceinline__ float4 unpacked(uint2 pairs) {
  return {__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000u), __uint_as_float(pairs.y << 16),
          __uint_as_float(pairs.y & 0xffff0000u)};
}
template <bool Wide, class T>
__device__ __forceinline__ float4 load_four(global<const T> row, unsigned at, unsigned columns) {
  return unpacked(load_packed<Wide>(row, at, columns));
}
template <bool Wide, class T>
__device__ __forceinline__ void store_four(global<T> row, unsigned at, unsigned columns, float4 x) {
  if constexpr (!Wide) {
    const float numbers[4] = {x.x, x.y, x.z, x.w};
    for (unsigned i = 0; i < 4 && at + i < columns; ++i) row[at + i] = from_float<T>(numbers[i]);
  } else if constexpr (std::is_same_v<T, float>) {
    store(row + at, x);
  } else {
    store(row + at, uint2{pair_of_bf16(x.x, x.y), pair_of_bf16(x.z, x.w)});
  }
}

/// Rows in float or in bf16, for kernels that choose the type when they run. The row_span of the other type is null.
struct any_rows {
  row_span<float> floats;
  row_span<std::uint16_t> bf16;

  __device__ __forceinline__ void write(std::size_t row, std::size_t at, float x) const {
    if (bf16.data)
      bf16.row(row)[at] = round_to_bf16(x);
    else
      floats.row(row)[at] = x;
  }
  /// Returns true if write_two may be called with every even `at`.
  __device__ __forceinline__ bool by_two() const {
    return bf16.data ? fits<unsigned>(bf16.data) && bf16.stride % 2 == 0 : fits<float2>(floats.data) && floats.stride % 2 == 0;
  }
  __device__ __forceinline__ void write_two(std::size_t row, std::size_t at, float2 x) const {
    if (bf16.data)
      store(bf16.row(row) + at, pair_of_bf16(x.x, x.y));
    else
      store(floats.row(row) + at, x);
  }
};

/// Calls use(at, load(at)) for each group of four numbers of a row that this thread has. gridDim.y blocks share a row. A thread begins two
/// loads before it waits for the first.
template <class Load, class Use>
__device__ __forceinline__ void for_fours(unsigned columns, Load load, Use use) {
  const unsigned step = 4 * gridDim.y * blockDim.x;
  for (unsigned at = 4 * (blockIdx.y * blockDim.x + threadIdx.x); at < columns; at += 2 * step) {
    const bool second = at + step < columns;
    const auto first_four = load(at), second_four = load(second ? at + step : at);
    use(at, first_four);
    if (second) use(at + step, second_four);
  }
}

/// Calls body(std::true_type) if `wide`, otherwise body(std::false_type).
template <class Body>
__device__ __forceinline__ void wide_or_not(bool wide, Body body) {
  if (wide)
    body(std::true_type{});
  else
    body(std::false_type{});
}

// All kernels below except norm_rows have one block for each piece of a row: grid (rows, pieces_for(columns)).

/// out[r] = table[ids[r]] * scale.
template <class Stored>
__global__ void embed_rows(row_span<const Stored> table, global<const std::uint32_t> ids, float scale, std::size_t columns,
                           row_span<float> out) {
  wait_for_earlier_work();
  const global<const Stored> from = table.row(ids[blockIdx.x]);
  const global<float> to = out.row(blockIdx.x);
  const auto count = static_cast<unsigned>(columns);
  wide_or_not(by_four(table, columns) && by_four(out, columns), [&](auto wide) {
    constexpr bool in_one = decltype(wide)::value;
    for_fours(
        count, [&](unsigned at) { return load_four<in_one>(from, at, count); },
        [&](unsigned at, float4 x) {
          store_four<in_one>(to, at, count, {x.x * scale, x.y * scale, x.z * scale, x.w * scale});
        });
  });
}

/// out = x / sqrt(mean(x^2) + epsilon) * weight, x and out as floats or in bf16; out may be x. Grid (rows), with one float of shared memory
/// for each warp. Each thread keeps its first 16 numbers in registers between the two passes. With 256 threads, these are the first 4096
/// numbers of a row.
/// budget norm_rows: 56 registers, 32 bytes of shared memory, 4 blocks of 256 threads
template <class In, class Out>
__global__ void __launch_bounds__(256, 4)
    norm_rows(row_span<const In> x, global<const float> weight, float epsilon, std::size_t columns, row_span<Out> out) {
  wait_for_earlier_work();
  const global<const In> from = x.row(blockIdx.x);
  const global<Out> to = out.row(blockIdx.x);
  const auto count = static_cast<unsigned>(columns);
  const unsigned first = 4 * threadIdx.x, step = 4 * blockDim.x;
  wide_or_not(by_four(x, columns) && by_four(out, columns) && fits<float4>(weight), [&](auto wide) {
    constexpr bool in_one = decltype(wide)::value;
    constexpr unsigned kept = 4;
    float4 four[kept];
    LAZYPRUNE_UNROLL for (unsigned i = 0; i < kept; ++i) {
      const unsigned at = first + i * step;
      four[i] = at < count ? load_four<in_one>(from, at, count) : float4{0, 0, 0, 0};
    }
    float squares = 0;
    const auto add = [&](float4 v) { squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; };
    LAZYPRUNE_UNROLL for (unsigned i = 0; i < kept; ++i) add(four[i]);
    for (unsigned at = first + kept * step; at < count; at += step) add(load_four<in_one>(from, at, count));
    const float root = sqrtf(block_sum(squares, shared_memory<float>(0)) / static_cast<float>(columns) + epsilon);
    const auto write = [&](unsigned at, float4 v) {
      const float4 w = load_four<in_one>(weight, at, count);
      store_four<in_one>(to, at, count, {v.x / root * w.x, v.y / root * w.y, v.z / root * w.z, v.w / root * w.w});
    };
    LAZYPRUNE_UNROLL for (unsigned i = 0; i < kept; ++i) {
      const unsigned at = first + i * step;
      if (at < count) write(at, four[i]);
    }
    for (unsigned at = first + kept * step; at < count; at += step) write(at, load_four<in_one>(from, at, count));
  });
}

template <class T>
struct two_packed {
  four_of<T> a, b;
};

/// out += x.
/// budget add_rows: 40 registers, 0 bytes of shared memory, 6 blocks of 256 threads
template <class Scalar>
__global__ void __launch_bounds__(256, 6) add_rows(row_span<const Scalar> x, std::size_t columns, row_span<Scalar> out) {
  wait_for_earlier_work();
  const global<const float> from = x.row(blockIdx.x);
  const global<float> to = out.row(blockIdx.x);
  const auto count = static_cast<unsigned>(columns);
  wide_or_not(by_four(x, columns) && by_four(out, columns), [&](auto wide) {
    constexpr bool in_one = decltype(wide)::value;
    for_fours(
        count,
        [&](unsigned at) {
          return two_packed<float>{load_four<in_one>(from, at, count), load_four<in_one>(global<const float>(to), at, count)};
        },
        [&](unsigned at, const two_packed<float>& v) {
          store_four<in_one>(to, at, count, {v.a.x + v.b.x, v.a.y + v.b.y, v.a.z + v.b.z, v.a.w + v.b.w});
        });
  });
}

/// out = x, converted from type From to type To.
template <class From, class To>
__global__ void convert_rows(row_span<const From> x, std::size_t columns, row_span<To> out) {
  wait_for_earlier_work();
  const global<const From> from = x.row(blockIdx.x);
  const global<To> to = out.row(blockIdx.x);
  const auto count = static_cast<unsigned>(columns);
  wide_or_not(by_four(x, columns) && by_four(out, columns), [&](auto wide) {
    constexpr bool in_one = decltype(wide)::value;
    for_fours(
        count, [&](unsigned at) { return load_four<in_one>(from, at, count); },
        [&](unsigned at, float4 v) { store_four<in_one>(to, at, count, v); });
  });
}

__device__ __forceinline__ float activated(gate_activation activation, float x) {
  if (activation == gate_activation::silu) return x / (1 + expf(-x));
  constexpr float root_of_2_over_pi = 0.7978845608028654f;
  return x / 2 * (1 + tanhf(root_of_2_over_pi * (x + 0.044715f * x * x * x)));
}

/// out (ffn) = gate(first half of x) * second half of x, for x (2 ffn), x and out as floats or in bf16.
/// budget gate_rows: 48 registers, 0 bytes of shared memory, 5 blocks of 256 threads
template <class In, class Out>
__global__ void __launch_bounds__(256, 5) gate_rows(row_span<const In> x, std::size_t ffn, gate_activation activation, row_span<Out> out) {
  wait_for_earlier_work();
  const global<const In> gate = x.row(blockIdx.x), up = gate + ffn;
  const global<Out> to = out.row(blockIdx.x);
  const auto count = static_cast<unsigned>(ffn);
  wide_or_not(by_four(x, ffn) && by_four(out, ffn), [&](auto wide) {
    constexpr bool in_one = decltype(wide)::value;
    for_fours(
        count,
        [&](unsigned at) {
          return two_packed<In>{load_packed<in_one>(gate, at, count), load_packed<in_one>(up, at, count)};
        },
        [&](unsigned at, const two_packed<In>& v) {
          const float4 a = unpacked(v.a), b = unpacked(v.b);
          store_four<in_one>(to, at, count,
                             {activated(activation, a.x) * b.x, activated(activation, a.y) * b.y, activated(activation, a.z) * b.z,
                              activated(activation, a.w) * b.w});
        });
  });
}

/// Return the two numbers of a pair (first, second) after RoPE. Every kernel that rotates calls these functions. The compiler cannot choose
/// how to round here, so a rotated number has the same bits in all of them.
__device__ __forceinline__ float first_turned(float first, float second, float cosine, float sine) {
  return fmaf(first, cosine, -(second * sine));
}
__device__ __forceinline__ float second_turned(float first, float second, float cosine, float sine) {
  return fmaf(second, cosine, first * sine);
}
__device__ __forceinline__ float4 first_turned(float4 a, float4 b, float4 c, float4 s) {
  return {first_turned(a.x, b.x, c.x, s.x), first_turned(a.y, b.y, c.y, s.y), first_turned(a.z, b.z, c.z, s.z),
          first_turned(a.w, b.w, c.w, s.w)};
}
__device__ __forceinline__ float4 second_turned(float4 a, float4 b, float4 c, float4 s) {
  return {second_turned(a.x, b.x, c.x, s.x), second_turned(a.y, b.y, c.y, s.y), second_turned(a.z, b.z, c.z, s.z),
          second_turned(a.w, b.w, c.w, s.w)};
}

/// The RoPE of some rows. A table of (positions, 2, half) has cosines, then sines.
struct rotation {
  global<const std::uint32_t> positions;  // of the rows
  global<const float> table;              // null: the rows are not rotated
  unsigned half;                          // half of the numbers of a head

  /// Returns the cosines of a row. The sines begin `half` numbers after them.
  __device__ __forceinline__ global<const float> of_row(std::size_t row) const {
    return table + static_cast<std::size_t>(positions[row]) * 2 * half;
  }
};

/// Applies RoPE in place. Each thread has pairs (i, i + half) of a head.
template <class Scalar>
__global__ void rotate_rows(row_span<Scalar> x, unsigned heads, rotation by) {
  wait_for_earlier_work();
  const global<float> row = x.row(blockIdx.x);
  const global<const float> turn = by.of_row(blockIdx.x);
  const unsigned of_head = by.half, pairs = heads * of_head;
  const unsigned thread = blockIdx.y * blockDim.x + threadIdx.x, threads = gridDim.y * blockDim.x;
  if (by_four(x, of_head) && fits<float4>(by.table)) {
    for (unsigned pair = 4 * thread; pair < pairs; pair += 4 * threads) {
      const unsigned i = pair % of_head, at = 2 * pair - i;
      const float4 a = load<float4>(row + at), b = load<float4>(row + at + of_head), c = load<float4>(turn + i),
                   s = load<float4>(turn + of_head + i);
      store(row + at, first_turned(a, b, c, s));
      store(row + at + of_head, second_turned(a, b, c, s));
    }
    return;
  }
  for (unsigned pair = thread; pair < pairs; pair += threads) {
    const unsigned i = pair % of_head, at = 2 * pair - i;
    const float a = row[at], b = row[at + of_head], cosine = turn[i], sine = turn[of_head + i];
    row[at] = first_turned(a, b, cosine, sine);
    row[at + of_head] = second_turned(a, b, cosine, sine);
  }
}

/// The addresses of a row's source and destination in device memory.
struct row_move {
  const void* from;
  void* to;
};

/// Copies each row of the list, and converts it from type From to type To.
template <class From, class To>
__global__ void move_rows(global<const row_move> moves, std::size_t columns) {
  wait_for_earlier_work();
  const row_move move = moves[blockIdx.x];
  const global<const From> from = static_cast<const From*>(move.from);
  const global<To> to = static_cast<To*>(move.to);
  const auto count = static_cast<unsigned>(columns);
  wide_or_not(fits<four_of<From>>(from) && fits<four_of<To>>(to) && columns % 4 == 0, [&](auto wide) {
    constexpr bool in_one = decltype(wide)::value;
    for_fours(
        count, [&](unsigned at) { return load_four<in_one>(from, at, count); },
        [&](unsigned at, float4 v) { store_four<in_one>(to, at, count, v); });
  });
}

/// Returns how many threads a block has for rows of this many numbers. The result depends only on `columns`, because the number of
/// threads determines the order of additions.
inline unsigned threads_for(std::size_t columns) {
  const std::size_t warps = (columns + 4 * warp_lanes - 1) / (4 * warp_lanes);
  return warp_lanes * static_cast<unsigned>(std::min<std::size_t>(std::max<std::size_t>(warps, 1), 8));
}

/// Returns how many blocks of threads_for(columns) threads share a row of this many numbers. Each thread gets eight numbers.
inline unsigned pieces_for(std::size_t columns) {
  const std::size_t piece = 8 * threads_for(columns);
  return static_cast<unsigned>((columns + piece - 1) / piece);
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
