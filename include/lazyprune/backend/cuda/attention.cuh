// SPDX-License-Identifier: MIT
// Kernels of attention. All of them go through a row's active tokens tile by tile, with a running softmax (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018; FlashAttention, arXiv 2205.14135), and take the heads that share keys and values together: a
// query is a row's head, and the queries of one pair of key and value heads are numbered row by row.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lazyprune/backend/cuda/device.hpp>
#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/backend/cuda/stored_kv.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// What attention computes, as kernels get it. Its blocks are those of stored_kv.
struct attention_task {
  row_span<const float> q;            // (rows, heads * head_dim)
  row_span<float> out;                // the same
  global<const uint2> seen;           // (rows): the active tokens from x to y - 1; neither falls from row to row
  global<const std::uint32_t> slots;  // (active), or null: they follow each other from first_slot on
  unsigned first_slot;
  global<const void* const> blocks;
  unsigned rows, heads, kv_heads, head_dim, pitch;
  float scale, soft_cap;
  unsigned split;       // so many active tokens are one block's; gridDim.z such splits
  global<float> parts;  // of several splits: (splits, rows, heads, 2 + head_dim): largest score, sum, weighted values

  __device__ __forceinline__ unsigned group() const { return heads / kv_heads; }
  __device__ __forceinline__ unsigned queries() const { return rows * group(); }  // of a key head

  /// Of a query of this key head: where its numbers lie in q and out.
  __device__ __forceinline__ std::size_t column_of(unsigned kv_head, unsigned query) const {
    return static_cast<std::size_t>(kv_head * group() + query % group()) * head_dim;
  }

  /// The key of an active token, and its value.
  template <class Stored>
  __device__ __forceinline__ global<const Stored> key(unsigned kv_head, unsigned i) const {
    const unsigned slot = slots ? static_cast<unsigned>(slots[i]) : first_slot + i;
    const global<const Stored> block = static_cast<const Stored*>(blocks[slot / stored_kv::block_slots]);
    return block + (static_cast<std::size_t>(slot % stored_kv::block_slots) * kv_heads + kv_head) * pitch;
  }
  template <class Stored>
  __device__ __forceinline__ global<const Stored> value(unsigned kv_head, unsigned i) const {
    return key<Stored>(kv_head, i) + static_cast<std::size_t>(stored_kv::block_slots) * kv_heads * pitch;
  }

  __device__ __forceinline__ float score(float product) const {
    const float scaled = product * scale;
    return soft_cap > 0 ? soft_cap * tanhf(scaled / soft_cap) : scaled;
  }
};

inline constexpr float no_score = -3.4028234663852886e38f;  // below all that there are; finite, so that differences are numbers

/// 16 bytes of stored numbers as floats.
__device__ __forceinline__ void load_floats(global<const float> from, float (&to)[4]) {
  const float4 four = load<float4>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
__device__ __forceinline__ void load_floats(global<const std::uint16_t> from, float (&to)[8]) {
  const uint4 eight = load<uint4>(from);
  const unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
  for (unsigned i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(pairs[i] << 16);
    to[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
  }
}

/// k and v (rows, kv_heads * head_dim) into the slots of writable blocks: a block a row.
template <class Stored>
__global__ void put_rows(row_span<const float> k, row_span<const float> v, global<const std::uint32_t> slots, global<void* const> blocks,
                         unsigned kv_heads, unsigned head_dim, unsigned pitch) {
  const unsigned slot = slots[blockIdx.x], width = kv_heads * pitch;
  const global<Stored> key = global<Stored>(static_cast<Stored*>(blocks[slot / stored_kv::block_slots])) +
                             static_cast<std::size_t>(slot % stored_kv::block_slots) * width;
  const global<Stored> value = key + static_cast<std::size_t>(stored_kv::block_slots) * width;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const unsigned at = i / pitch * head_dim + i % pitch;
    const bool there = i % pitch < head_dim;
    key[i] = from_float<Stored>(there ? static_cast<float>(k.row(blockIdx.x)[at]) : 0.0f);
    value[i] = from_float<Stored>(there ? static_cast<float>(v.row(blockIdx.x)[at]) : 0.0f);
  }
}

/// Keys, or values where `values`, of slots as floats (slots, kv_heads * head_dim): a block a slot.
template <class Stored>
__global__ void read_slots(global<const void* const> blocks, global<const std::uint32_t> slots, bool values, unsigned kv_heads,
                           unsigned head_dim, unsigned pitch, global<float> out) {
  const unsigned slot = slots[blockIdx.x], width = kv_heads * pitch;
  const std::size_t at = static_cast<std::size_t>(slot % stored_kv::block_slots + (values ? stored_kv::block_slots : 0)) * width;
  const global<const Stored> from = global<const Stored>(static_cast<const Stored*>(blocks[slot / stored_kv::block_slots])) + at;
  for (unsigned i = threadIdx.x; i < kv_heads * head_dim; i += blockDim.x)
    out[static_cast<std::size_t>(blockIdx.x) * kv_heads * head_dim + i] = to_float(from[i / head_dim * pitch + i % head_dim]);
}

/// Attention in float throughout: grid (tiles of queries, kv_heads, splits). A warp has four queries; its lanes are the keys of a tile
/// while scores are computed, and the dimensions of the values afterwards. One warp a block where queries are few and keys are split, four
/// where they share a tile of keys. What one may take, so that as many blocks live side by side on a multiprocessor of 8.0, by dimensions
/// and warps (see elementwise.cuh):
/// budget attend_exact<32, 1>: 80 registers, 10304 bytes of shared memory, 14 blocks of 32 threads
/// budget attend_exact<64, 1>: 80 registers, 19008 bytes of shared memory, 8 blocks of 32 threads
/// budget attend_exact<128, 1>: 96 registers, 36416 bytes of shared memory, 4 blocks of 32 threads
/// budget attend_exact<256, 1>: 128 registers, 71232 bytes of shared memory, 2 blocks of 32 threads
/// budget attend_exact<32, 4>: 80 registers, 13568 bytes of shared memory, 6 blocks of 128 threads
/// budget attend_exact<64, 4>: 80 registers, 23808 bytes of shared memory, 6 blocks of 128 threads
/// budget attend_exact<128, 4>: 96 registers, 44288 bytes of shared memory, 3 blocks of 128 threads
/// budget attend_exact<256, 4>: 128 registers, 85248 bytes of shared memory, 1 block of 128 threads
template <unsigned D, unsigned Warps>
struct exact_attention {
  static constexpr unsigned threads = Warps * warp_lanes, queries = 4 * Warps, keys = warp_lanes;
  static constexpr unsigned pitch = D + 4;  // of rows in shared memory: lanes read four numbers each of different rows
  static constexpr std::size_t shared_bytes = ((queries + 2 * keys) * pitch + queries * keys) * sizeof(float);
};

template <class Stored, unsigned D, unsigned Warps>
__global__ void __launch_bounds__(Warps* warp_lanes) attend_exact(attention_task t) {
  using tile = exact_attention<D, Warps>;
  constexpr unsigned pitch = tile::pitch, of_warp = 4, piece = 16 / sizeof(Stored), pieces = D / piece, own = D / warp_lanes;
  constexpr unsigned wide = own < 4 ? own : 4;  // numbers that a lane has side by side of a value
  const shared<float> q = shared_memory<float>(0), k = q + tile::queries * pitch, v = k + tile::keys * pitch;
  const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, kv_head = blockIdx.y;
  const unsigned first = blockIdx.x * tile::queries, all = t.queries(), group = t.group();
  const shared<float> own_q = q + warp * of_warp * pitch, p = v + tile::keys * pitch + warp * of_warp * tile::keys;

  for (unsigned i = threadIdx.x; i < tile::queries * D; i += blockDim.x) {
    const unsigned query = first + i / D, d = i % D;
    const bool there = query < all && d < t.head_dim;
    q[i / D * pitch + d] = there ? static_cast<float>(t.q.row(query / group)[t.column_of(kv_head, query) + d]) : 0.0f;
  }

  uint2 seen[of_warp];
  float most[of_warp], sum[of_warp], o[of_warp][own];
  for (unsigned r = 0; r < of_warp; ++r) {
    const unsigned query = first + warp * of_warp + r;
    seen[r] = query < all ? static_cast<uint2>(t.seen[query / group]) : uint2{0, 0};
    most[r] = no_score;
    sum[r] = 0;
    for (unsigned e = 0; e < own; ++e) o[r][e] = 0;
  }
  const unsigned last = min(first + tile::queries, all) - 1;
  const uint2 of_first = t.seen[first / group], of_last = t.seen[last / group];
  const unsigned begin = max(of_first.x, blockIdx.z * t.split), end = min(of_last.y, (blockIdx.z + 1) * t.split);

  for (unsigned r = 0; r < of_warp; ++r) seen[r].y = min(seen[r].y, end);

  for (unsigned at = begin; at < end; at += tile::keys) {
    __syncthreads();
    for (unsigned i = threadIdx.x; i < tile::keys * pieces; i += blockDim.x) {
      const unsigned key = i / pieces, d = i % pieces * piece;
      float of_key[piece] = {}, of_value[piece] = {};
      if (at + key < end && d < t.pitch) {
        load_floats(t.key<Stored>(kv_head, at + key) + d, of_key);
        load_floats(t.value<Stored>(kv_head, at + key) + d, of_value);
      }
      for (unsigned e = 0; e < piece; e += 4) {
        store(k + key * pitch + d + e, float4{of_key[e], of_key[e + 1], of_key[e + 2], of_key[e + 3]});
        store(v + key * pitch + d + e, float4{of_value[e], of_value[e + 1], of_value[e + 2], of_value[e + 3]});
      }
    }
    __syncthreads();

    float s[of_warp] = {};
    for (unsigned d = 0; d < D; d += 4) {
      const float4 b = load<float4>(k + lane * pitch + d);
      for (unsigned r = 0; r < of_warp; ++r) {
        const float4 a = load<float4>(own_q + r * pitch + d);
        s[r] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
      }
    }
    for (unsigned r = 0; r < of_warp; ++r) {
      const bool sees = seen[r].x <= at + lane && at + lane < seen[r].y;
      const float score = sees ? t.score(s[r]) : no_score;
      const float largest = fmaxf(most[r], warp_most(score)), fade = expf(most[r] - largest);
      const float weight = sees ? expf(score - largest) : 0.0f;
      most[r] = largest;
      sum[r] = sum[r] * fade + weight;  // of this lane's keys
      for (unsigned e = 0; e < own; ++e) o[r][e] *= fade;
      p[r * tile::keys + lane] = weight;
    }
    __syncwarp();
    for (unsigned key = 0; key < tile::keys; key += 4) {
      float weights[of_warp][4];
      for (unsigned r = 0; r < of_warp; ++r) {
        const float4 four = load<float4>(p + r * tile::keys + key);
        weights[r][0] = four.x, weights[r][1] = four.y, weights[r][2] = four.z, weights[r][3] = four.w;
      }
      for (unsigned j = 0; j < 4; ++j)
        for (unsigned e = 0; e < own; e += wide) {
          const shared<float> from = v + (key + j) * pitch + e * warp_lanes + lane * wide;
          float number[wide];
          if constexpr (wide == 4) {
            const float4 four = load<float4>(from);
            number[0] = four.x, number[1] = four.y, number[2] = four.z, number[3] = four.w;
          } else if constexpr (wide == 2) {
            const float2 two = load<float2>(from);
            number[0] = two.x, number[1] = two.y;
          } else {
            number[0] = from[0];
          }
          for (unsigned r = 0; r < of_warp; ++r)
            for (unsigned i = 0; i < wide; ++i) o[r][e + i] += weights[r][j] * number[i];
        }
    }
  }

  for (unsigned r = 0; r < of_warp; ++r) {
    const unsigned query = first + warp * of_warp + r;
    const float total = warp_sum(sum[r]);
    if (query >= all) continue;
    const std::size_t row = query / group, column = t.column_of(kv_head, query);
    const std::size_t part = ((static_cast<std::size_t>(blockIdx.z) * t.rows + row) * t.heads + column / t.head_dim) * (2 + t.head_dim);
    if (gridDim.z > 1 && lane == 0) {
      t.parts[part] = most[r];
      t.parts[part + 1] = total;
    }
    for (unsigned e = 0; e < own; ++e) {
      const unsigned d = e / wide * wide * warp_lanes + lane * wide + e % wide;
      if (d >= t.head_dim) continue;
      if (gridDim.z > 1)
        t.parts[part + 2 + d] = o[r][e];
      else
        t.out.row(row)[column + d] = o[r][e] / total;
    }
  }
}

/// Attention on tensor cores, over keys and values in bf16, with queries and weights rounded to bf16 and sums in float: grid (tiles of
/// queries, kv_heads). Four warps have 16 queries each of a tile and share tiles of keys and values. A tile of values is on its way while
/// scores are computed, and the next one of keys while values are summed.
/// budget attend_tensor<32>: 96 registers, 15360 bytes of shared memory, 5 blocks of 128 threads
/// budget attend_tensor<64>: 128 registers, 27648 bytes of shared memory, 4 blocks of 128 threads
/// budget attend_tensor<128>: 168 registers, 52224 bytes of shared memory, 3 blocks of 128 threads
/// budget attend_tensor<256>: 255 registers, 67584 bytes of shared memory, 2 blocks of 128 threads
template <unsigned D>
struct tensor_attention {
  static constexpr unsigned warps = 4, threads = warps * warp_lanes, queries = 16 * warps, keys = D <= 128 ? 64 : 32;
  static constexpr unsigned pitch = D + 8;  // of rows in shared memory: the eight that a matrix is read from lie in different banks
  static constexpr std::size_t shared_bytes = (queries + 2 * keys) * pitch * sizeof(std::uint16_t);
};

/// A tile of keys, or values, on its way: zeros behind `end`, and behind a head's numbers.
template <unsigned D, bool Values>
__device__ __forceinline__ void load_tile(const attention_task& t, unsigned kv_head, unsigned at, unsigned end, shared<std::uint16_t> to) {
  using tile = tensor_attention<D>;
  constexpr unsigned piece = 8, pieces = D / piece;
  for (unsigned i = threadIdx.x; i < tile::keys * pieces; i += tile::threads) {
    const unsigned key = i / pieces, d = i % pieces * piece;
    const bool there = at + key < end && d < t.pitch;
    const unsigned token = at + key < end ? at + key : at;  // an address that there is
    const global<const std::uint16_t> from = Values ? t.value<std::uint16_t>(kv_head, token) : t.key<std::uint16_t>(kv_head, token);
    copy_async(to + key * tile::pitch + d, from + (there ? d : 0), there);
  }
  commit_copies();
}

template <unsigned D>
__global__ void __launch_bounds__(tensor_attention<D>::threads) attend_tensor(attention_task t) {
  using tile = tensor_attention<D>;
  constexpr unsigned pitch = tile::pitch, key_tiles = tile::keys / 8, value_tiles = D / 8;  // of mma's eight columns
  constexpr float log2_of_e = 1.4426950408889634f;
  const shared<std::uint16_t> q = shared_memory<std::uint16_t>(0), k = q + tile::queries * pitch, v = k + tile::keys * pitch;
  const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, kv_head = blockIdx.y;
  const unsigned first = blockIdx.x * tile::queries, all = t.queries(), group = t.group();

  const uint2 of_first = t.seen[first / group], of_last = t.seen[(min(first + tile::queries, all) - 1) / group];
  const unsigned begin = of_first.x, end = of_last.y;
  load_tile<D, false>(t, kv_head, begin, end, k);
  for (unsigned i = threadIdx.x; i < tile::queries * D / 2; i += tile::threads) {
    const unsigned query = first + i / (D / 2), d = i % (D / 2) * 2;
    const auto number = [&](unsigned at) {
      return query < all && at < t.head_dim ? static_cast<float>(t.q.row(query / group)[t.column_of(kv_head, query) + at]) : 0.0f;
    };
    store(q + i / (D / 2) * pitch + d, pair_of_bf16(number(d), number(d + 1)));
  }

  // Of mma's fragments a lane has the rows lane / 4 and, 8 below, lane / 4 + 8 of its warp's queries; here they are rows 0 and 1.
  uint2 seen[2];
  float most[2], sum[2], o[value_tiles][4];
  for (unsigned r = 0; r < 2; ++r) {
    const unsigned query = first + warp * 16 + lane / 4 + r * 8;
    seen[r] = query < all ? static_cast<uint2>(t.seen[query / group]) : uint2{0, 0};
    most[r] = no_score;
    sum[r] = 0;
  }
  LAZYPRUNE_UNROLL for (unsigned n = 0; n < value_tiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) o[n][e] = 0;

  for (unsigned at = begin; at < end; at += tile::keys) {
    wait_for_copies<0>();
    __syncthreads();  // keys are there, and nobody reads the last values any more
    load_tile<D, true>(t, kv_head, at, end, v);

    float s[key_tiles][4];
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < key_tiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) s[n][e] = 0;
    LAZYPRUNE_UNROLL for (unsigned d = 0; d < D; d += 16) {
      std::uint32_t a[4];
      ldmatrix(a, q + (warp * 16 + lane % 16) * pitch + d + lane / 16 * 8);
      LAZYPRUNE_UNROLL for (unsigned n = 0; n < key_tiles; n += 2) {
        std::uint32_t b[4];
        ldmatrix(b, k + (n * 8 + lane % 8 + lane / 16 * 8) * pitch + d + lane / 8 % 2 * 8);
        mma(s[n], a, {b[0], b[1]});
        mma(s[n + 1], a, {b[2], b[3]});
      }
    }
    wait_for_copies<0>();
    __syncthreads();  // values are there, and nobody reads these keys any more
    if (at + tile::keys < end) load_tile<D, false>(t, kv_head, at + tile::keys, end, k);

    float largest[2] = {most[0], most[1]};
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < key_tiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) {
      const unsigned key = at + n * 8 + lane % 4 * 2 + e % 2;
      const bool sees = seen[e / 2].x <= key && key < seen[e / 2].y;
      s[n][e] = sees ? t.score(s[n][e]) * log2_of_e : no_score;
      largest[e / 2] = fmaxf(largest[e / 2], s[n][e]);
    }
    LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) {
      for (unsigned by = 1; by < 4; by *= 2) largest[r] = fmaxf(largest[r], __shfl_xor_sync(all_lanes, largest[r], by));
      const float fade = exp2f(most[r] - largest[r]);
      most[r] = largest[r];
      sum[r] *= fade;
      LAZYPRUNE_UNROLL for (unsigned n = 0; n < value_tiles; ++n) {
        o[n][2 * r] *= fade;
        o[n][2 * r + 1] *= fade;
      }
    }
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < key_tiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) {
      s[n][e] = s[n][e] > no_score ? exp2f(s[n][e] - most[e / 2]) : 0.0f;
      sum[e / 2] += s[n][e];
    }
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < key_tiles; n += 2) {  // what mma gave for 16 keys lies as it wants them on the left
      const std::uint32_t a[4] = {pair_of_bf16(s[n][0], s[n][1]), pair_of_bf16(s[n][2], s[n][3]), pair_of_bf16(s[n + 1][0], s[n + 1][1]),
                                  pair_of_bf16(s[n + 1][2], s[n + 1][3])};
      LAZYPRUNE_UNROLL for (unsigned d = 0; d < value_tiles; d += 2) {
        std::uint32_t b[4];
        ldmatrix_transposed(b, v + (n * 8 + lane % 8 + lane / 8 % 2 * 8) * pitch + d * 8 + lane / 16 * 8);
        mma(o[d], a, {b[0], b[1]});
        mma(o[d + 1], a, {b[2], b[3]});
      }
    }
  }

  LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) {
    for (unsigned by = 1; by < 4; by *= 2) sum[r] += __shfl_xor_sync(all_lanes, sum[r], by);
    const unsigned query = first + warp * 16 + lane / 4 + r * 8;
    if (query >= all) continue;
    const global<float> to = t.out.row(query / group) + t.column_of(kv_head, query);
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < value_tiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 2; ++e) {
      const unsigned d = n * 8 + lane % 4 * 2 + e;
      if (d < t.head_dim) to[d] = o[n][2 * r + e] / sum[r];
    }
  }
}

/// Joins what splits found of a row's head: a block each, grid (rows, heads).
template <class Task>
__global__ void join_splits(Task t, unsigned splits) {
  const std::size_t step = static_cast<std::size_t>(t.rows) * t.heads * (2 + t.head_dim);
  const global<float> part = t.parts + (static_cast<std::size_t>(blockIdx.x) * t.heads + blockIdx.y) * (2 + t.head_dim);
  float most = no_score, total = 0;
  for (unsigned i = 0; i < splits; ++i) most = fmaxf(most, part[i * step]);
  for (unsigned i = 0; i < splits; ++i) total += expf(part[i * step] - most) * part[i * step + 1];
  for (unsigned d = threadIdx.x; d < t.head_dim; d += blockDim.x) {
    float sum = 0;
    for (unsigned i = 0; i < splits; ++i) sum += expf(part[i * step] - most) * part[i * step + 2 + d];
    t.out.row(blockIdx.x)[static_cast<std::size_t>(blockIdx.y) * t.head_dim + d] = sum / total;
  }
}

/// Scores of the last rows, from first_row on, with the first `active` tokens: out (rows - first_row, heads, active), no_score where a row
/// does not see a token. A thread is a key and goes through the heads that share it: grid (tiles of keys, kv_heads, rows - first_row),
/// shared memory for a group's queries (group, pitch): 4 of 256 numbers here, and fewer blocks for more.
/// budget probe_scores: 64 registers, 4096 bytes of shared memory, 8 blocks of 128 threads
template <class Stored>
__global__ void probe_scores(attention_task t, unsigned first_row, unsigned active, global<float> out) {
  constexpr unsigned piece = 16 / sizeof(Stored), together = 4;
  const shared<float> q = shared_memory<float>(0);
  const unsigned kv_head = blockIdx.y, row = first_row + blockIdx.z, group = t.group();
  for (unsigned i = threadIdx.x; i < group * t.pitch; i += blockDim.x) {
    const unsigned d = i % t.pitch, head = kv_head * group + i / t.pitch;
    q[i] = d < t.head_dim ? static_cast<float>(t.q.row(row)[static_cast<std::size_t>(head) * t.head_dim + d]) : 0.0f;
  }
  __syncthreads();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= active) return;
  const uint2 seen = t.seen[row];
  const bool sees = seen.x <= i && i < seen.y;
  for (unsigned head = 0; head < group; head += together) {
    float s[together] = {};
    for (unsigned d = 0; sees && d < t.pitch; d += piece) {
      float numbers[piece];
      load_floats(t.key<Stored>(kv_head, i) + d, numbers);
      for (unsigned h = 0; h < together; ++h)
        for (unsigned e = 0; head + h < group && e < piece; ++e) s[h] += q[(head + h) * t.pitch + d + e] * numbers[e];
    }
    for (unsigned h = 0; h < together && head + h < group; ++h)
      out[(static_cast<std::size_t>(blockIdx.z) * t.heads + kv_head * group + head + h) * active + i] = sees ? t.score(s[h]) : no_score;
  }
}

/// Scores become probabilities, in place: a block a row of (rows, active), with a number of shared memory for each warp.
template <class Scalar>
__global__ void softmax_rows(global<Scalar> x, unsigned active) {
  const global<Scalar> row = x + static_cast<std::size_t>(blockIdx.x) * active;
  const shared<float> room = shared_memory<float>(0);
  float most = no_score, sum = 0;
  for (unsigned i = threadIdx.x; i < active; i += blockDim.x) most = fmaxf(most, row[i]);
  most = block_most(most, room);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < active; i += blockDim.x) {
    const float score = row[i], weight = score > no_score ? expf(score - most) : 0.0f;
    row[i] = weight;
    sum += weight;
  }
  sum = block_sum(sum, room);
  for (unsigned i = threadIdx.x; i < active; i += blockDim.x) row[i] = row[i] / sum;
}

/// The heads' probabilities become one row, in place of the first head's: grid (pieces of the active tokens, rows), x (rows, heads,
/// active). A thread has a token, and adds its heads in double, one after the other, as the host's reduce_heads does: to the same bits.
template <class Scalar>
__global__ void reduce_rows(global<Scalar> x, unsigned heads, unsigned active, head_reduction over) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= active) return;
  const global<Scalar> row = x + static_cast<std::size_t>(blockIdx.y) * heads * active + i;
  double sum = 0;
  float most = 0;  // no probability is below it
  for (unsigned h = 0; h < heads; ++h) {
    const float probability = row[static_cast<std::size_t>(h) * active];
    sum += static_cast<double>(probability);
    most = fmaxf(most, probability);
  }
  row[0] = over == head_reduction::mean ? static_cast<float>(sum / static_cast<double>(heads)) : most;
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
