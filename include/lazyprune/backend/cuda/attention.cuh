// SPDX-License-Identifier: MIT
// Attention kernels. They go through a row's active tokens tile by tile, with a running softmax (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018; FlashAttention, arXiv 2205.14135). Heads that share a key/value head are computed together. In this
// header, a query is one head of one row. The queries of one key/value head are numbered row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <lazyprune/backend/cuda/device.hpp>
#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/backend/cuda/stored_kv.hpp>
#include <lazyprune/backend/cuda/wgmma.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// Loads 16 bytes of stored numbers as floats.
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

/// The queries of attention (rows, heads * head_dim), in float or in bf16. The row_span of the other type is null. The kernels rotate
/// queries when they read them.
struct query_rows {
  row_span<const float> floats;
  row_span<const std::uint16_t> bf16;
  rotation by;

  /// Returns number d of the head that begins at column `head`.
  __device__ __forceinline__ float number(std::size_t row, std::size_t head, unsigned d) const {
    const float x = stored(row, head + d);
    if (!by.table) return x;
    const unsigned half = by.half, i = d < half ? d : d - half;
    const float other = stored(row, head + (d < half ? d + half : i));
    const global<const float> turn = by.of_row(row);
    const float cosine = turn[i], sine = turn[half + i];
    return d < half ? first_turned(x, other, cosine, sine) : second_turned(other, x, cosine, sine);
  }

  /// Returns true if load_eight may be called with every d that is a multiple of eight.
  __device__ __forceinline__ bool by_eight(unsigned head_dim) const {
    const bool aligned = bf16.data ? fits<uint4>(bf16.data) && bf16.stride % 8 == 0 : fits<float4>(floats.data) && floats.stride % 4 == 0;
    return aligned && head_dim % 8 == 0 && (!by.table || (by.half % 8 == 0 && fits<float4>(by.table)));
  }
  /// Loads the numbers d to d + 7 of the head that begins at column `head`.
  __device__ __forceinline__ void load_eight(std::size_t row, std::size_t head, unsigned d, float (&to)[8]) const {
    load_stored(row, head + d, to);
    if (!by.table) return;
    const unsigned half = by.half, i = d < half ? d : d - half;
    float other[8];
    load_stored(row, head + (d < half ? d + half : i), other);
    const global<const float> turn = by.of_row(row) + i;
    LAZYPRUNE_UNROLL for (unsigned e = 0; e < 8; e += 4) {
      const float4 c = load<float4>(turn + e), s = load<float4>(turn + half + e);
      const float cosines[4] = {c.x, c.y, c.z, c.w}, sines[4] = {s.x, s.y, s.z, s.w};
      LAZYPRUNE_UNROLL for (unsigned j = 0; j < 4; ++j) to[e + j] = d < half ? first_turned(to[e + j], other[e + j], cosines[j], sines[j])
                                                                             : second_turned(other[e + j], to[e + j], cosines[j], sines[j]);
    }
  }

 private:
  __device__ __forceinline__ float stored(std::size_t row, std::size_t at) const {
    return bf16.data ? to_float(static_cast<std::uint16_t>(bf16.row(row)[at])) : static_cast<float>(floats.row(row)[at]);
  }
  __device__ __forceinline__ void load_stored(std::size_t row, std::size_t at, float (&to)[8]) const {
    if (bf16.data) return load_floats(bf16.row(row) + at, to);
    float low[4], high[4];
    load_floats(floats.row(row) + at, low);
    load_floats(floats.row(row) + at + 4, high);
    LAZYPRUNE_UNROLL for (unsigned i = 0; i < 4; ++i) to[i] = low[i], to[i + 4] = high[i];
  }
};

/// The argument of the attention kernels. `blocks` has the addresses of a stored_kv's blocks.
struct attention_task {
  query_rows q;
  any_rows out;                       // (rows, heads * head_dim)
  global<const uint2> seen;           // (rows): a row sees the active tokens x to y - 1; x and y never decrease from row to row
  global<const std::uint32_t> slots;  // (active); if null, the slots are consecutive, from first_slot on
  unsigned first_slot;
  global<const void* const> blocks;
  unsigned rows, heads, kv_heads, head_dim, pitch;
  float scale, soft_cap;
  unsigned split;       // the number of active tokens in a split; there are gridDim.z splits
  global<float> parts;  // with several splits: their results (splits, rows, heads, 2 + head_dim): largest score, sum, weighted values

  __device__ __forceinline__ unsigned group() const { return heads / kv_heads; }
  __device__ __forceinline__ unsigned queries() const { return rows * group(); }  // the queries of one key/value head

  /// Returns the first column, in q and in out, of query `query` of this key/value head.
  __device__ __forceinline__ std::size_t column_of(unsigned kv_head, unsigned query) const {
    return static_cast<std::size_t>(kv_head * group() + query % group()) * head_dim;
  }

  /// Returns the key, or the value, of active token i.
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

inline constexpr float no_score = -3.4028234663852886e38f;                // less than every score; finite, so differences are never NaN
inline constexpr float unseen = -std::numeric_limits<float>::infinity();  // has weight 0, whatever the largest score is

/// Rotates k by RoPE, and writes k and v (rows, kv_heads * head_dim) into slots. The slots' blocks must be writable. Grid (rows,
/// pieces_for(kv_heads * pitch)). Each thread has pairs (i, i + half) of a head.
/// budget put_rows: 40 registers, 0 bytes of shared memory, 6 blocks of 256 threads
template <class In, class Stored>
__global__ void __launch_bounds__(256, 6)
    put_rows(row_span<const In> k, row_span<const In> v, rotation by, global<const std::uint32_t> slots, global<void* const> blocks,
             unsigned kv_heads, unsigned head_dim, unsigned pitch) {
  wait_for_earlier_work();
  const unsigned slot = slots[blockIdx.x], width = kv_heads * pitch;
  const global<Stored> key = global<Stored>(static_cast<Stored*>(blocks[slot / stored_kv::block_slots])) +
                             static_cast<std::size_t>(slot % stored_kv::block_slots) * width;
  const global<Stored> value = key + static_cast<std::size_t>(stored_kv::block_slots) * width;
  const global<const In> of_key = k.row(blockIdx.x), of_value = v.row(blockIdx.x);
  const unsigned thread = blockIdx.y * blockDim.x + threadIdx.x, threads = gridDim.y * blockDim.x, half = head_dim / 2;
  global<const float> turn = nullptr;
  if (by.table) turn = by.of_row(blockIdx.x);
  if (head_dim == pitch && by_four(k, width) && by_four(v, width) && fits<float4>(by.table)) {  // then half is a multiple of four
    for (unsigned pair = 4 * thread; pair < width / 2; pair += 4 * threads) {
      const unsigned i = pair % half, at = 2 * pair - i;
      float4 a = load_four<true>(of_key, at, width), b = load_four<true>(of_key, at + half, width);
      store_four<true>(value, at, width, load_four<true>(of_value, at, width));
      store_four<true>(value, at + half, width, load_four<true>(of_value, at + half, width));
      if (by.table) {
        const float4 c = load<float4>(turn + i), s = load<float4>(turn + half + i), turned = first_turned(a, b, c, s);
        b = second_turned(a, b, c, s);
        a = turned;
      }
      store_four<true>(key, at, width, a);
      store_four<true>(key, at + half, width, b);
    }
    return;
  }
  for (unsigned i = thread; i < width; i += threads) {
    const unsigned d = i % pitch, at = i / pitch * head_dim + d;
    float x = 0, y = 0;  // zeros pad each head
    if (d < head_dim) {
      x = to_float(static_cast<In>(of_key[at]));
      y = to_float(static_cast<In>(of_value[at]));
      if (by.table) {
        const bool is_first = d < half;
        const unsigned pair = is_first ? d : d - half;
        const float other = to_float(static_cast<In>(of_key[is_first ? at + half : at - half])), cosine = turn[pair],
                    sine = turn[half + pair];
        x = is_first ? first_turned(x, other, cosine, sine) : second_turned(other, x, cosine, sine);
      }
    }
    key[i] = from_float<Stored>(x);
    value[i] = from_float<Stored>(y);
  }
}

/// Reads the keys of slots, or the values if `values` is true, as floats: (slots, kv_heads * head_dim). Grid (slots).
template <class Stored>
__global__ void read_slots(global<const void* const> blocks, global<const std::uint32_t> slots, bool values, unsigned kv_heads,
                           unsigned head_dim, unsigned pitch, global<float> out) {
  wait_for_earlier_work();
  const unsigned slot = slots[blockIdx.x], width = kv_heads * pitch;
  const std::size_t at = static_cast<std::size_t>(slot % stored_kv::block_slots + (values ? stored_kv::block_slots : 0)) * width;
  const global<const Stored> from = global<const Stored>(static_cast<const Stored*>(blocks[slot / stored_kv::block_slots])) + at;
  for (unsigned i = threadIdx.x; i < kv_heads * head_dim; i += blockDim.x)
    out[static_cast<std::size_t>(blockIdx.x) * kv_heads * head_dim + i] = to_float(from[i / head_dim * pitch + i % head_dim]);
}

/// Loads adjacent numbers of shared memory as floats.
template <unsigned Count>
__device__ __forceinline__ void load_floats(shared<const float> from, float (&to)[Count]) {
  if constexpr (Count == 4) {
    const float4 four = load<float4>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else if constexpr (Count == 2) {
    const float2 two = load<float2>(from);
    to[0] = two.x, to[1] = two.y;
  } else {
    to[0] = from[0];
  }
}
template <unsigned Count>
__device__ __forceinline__ void load_floats(shared<const std::uint16_t> from, float (&to)[Count]) {
  const auto spread = [&](unsigned i, unsigned pair) {
    to[i] = __uint_as_float(pair << 16);
    to[i + 1] = __uint_as_float(pair & 0xffff0000u);
  };
  if constexpr (Count == 8) {
    const uint4 eight = load<uint4>(from);
    spread(0, eight.x), spread(2, eight.y), spread(4, eight.z), spread(6, eight.w);
  } else if constexpr (Count == 4) {
    const uint2 four = load<uint2>(from);
    spread(0, four.x), spread(2, four.y);
  } else if constexpr (Count == 2) {
    spread(0, load<unsigned>(from));
  } else {
    to[0] = widen(from[0]);
  }
}

/// Attention entirely in float. Grid (tiles of queries, kv_heads, splits). A warp has four queries. While it computes scores, each lane has
/// one key of a tile. While it sums values, each lane has some dimensions of the values. With few rows, a block has one warp, and keys are
/// split among blocks. Otherwise a block has four warps, which share a tile of keys. Shared memory holds keys and values in their stored
/// type. The budgets are named by dimensions and warps, and are for a multiprocessor of compute capability 8.0 (see elementwise.cuh). They
/// state the shared memory for keys and values in float. In bf16, keys and values take half as much.
/// budget attend_exact<32, 1>: 168 registers, 10560 bytes of shared memory, 12 blocks of 32 threads
/// budget attend_exact<64, 1>: 168 registers, 19264 bytes of shared memory, 8 blocks of 32 threads
/// budget attend_exact<128, 1>: 168 registers, 36672 bytes of shared memory, 4 blocks of 32 threads
/// budget attend_exact<256, 1>: 168 registers, 71488 bytes of shared memory, 2 blocks of 32 threads
/// budget attend_exact<32, 4>: 96 registers, 13824 bytes of shared memory, 5 blocks of 128 threads
/// budget attend_exact<64, 4>: 96 registers, 24064 bytes of shared memory, 5 blocks of 128 threads
/// budget attend_exact<128, 4>: 168 registers, 44544 bytes of shared memory, 3 blocks of 128 threads
/// budget attend_exact<256, 4>: 192 registers, 85504 bytes of shared memory, 1 block of 128 threads
template <class Stored, unsigned D, unsigned Warps>
struct exact_attention {
  static constexpr unsigned threads = Warps * warp_lanes, queries = 4 * Warps, keys = warp_lanes;
  static constexpr unsigned blocks = Warps == 1 ? 12 : D <= 64 ? 5 : D <= 128 ? 3 : 1;  // as many as the registers leave room for
  // The distances between rows in shared memory, in numbers. With these, lanes that read 16 bytes of different rows use different banks.
  static constexpr unsigned pitch = D + 16 / sizeof(Stored), query_pitch = D + 4;
  static constexpr std::size_t address_bytes = keys * sizeof(void*);
  static constexpr std::size_t shared_bytes =
      address_bytes + (queries * query_pitch + queries * keys) * sizeof(float) + 2 * keys * pitch * sizeof(Stored);
};

template <class Stored, unsigned D, unsigned Warps>
__global__ void __launch_bounds__(Warps* warp_lanes, exact_attention<Stored, D, Warps>::blocks) attend_exact(attention_task t) {
  wait_for_earlier_work();
  using tile = exact_attention<Stored, D, Warps>;
  constexpr unsigned pitch = tile::pitch, query_pitch = tile::query_pitch, of_warp = 4, own = D / warp_lanes;
  constexpr unsigned piece = 16 / sizeof(Stored), pieces = D / piece, together = tile::keys * pieces / tile::threads;
  constexpr unsigned wide = own < 4 ? own : 4;  // how many adjacent numbers of a value a lane reads at once
  const shared<global<const Stored>> found = shared_memory<global<const Stored>>(0);
  const shared<float> q = shared_memory<float>(tile::address_bytes), weights = q + tile::queries * query_pitch;
  const shared<Stored> k = shared_memory<Stored>(tile::address_bytes + tile::queries * (query_pitch + tile::keys) * sizeof(float)),
                       v = k + tile::keys * pitch;
  const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, kv_head = blockIdx.y;
  const unsigned first = blockIdx.x * tile::queries, all = t.queries(), group = t.group();
  const shared<float> own_q = q + warp * of_warp * query_pitch, p = weights + warp * of_warp * tile::keys;
  const auto behind = static_cast<unsigned>(stored_kv::block_slots) * t.kv_heads * t.pitch;  // the distance from a key to its value

  for (unsigned i = threadIdx.x; i < tile::queries * D; i += blockDim.x) {
    const unsigned query = first + i / D, d = i % D;
    const bool there = query < all && d < t.head_dim;
    q[i / D * query_pitch + d] = there ? t.q.number(query / group, t.column_of(kv_head, query), d) : 0.0f;
  }

  const unsigned last = min(first + tile::queries, all) - 1;
  const uint2 of_first = t.seen[first / group], of_last = t.seen[last / group];
  const unsigned begin = max(of_first.x, blockIdx.z * t.split), end = min(of_last.y, (blockIdx.z + 1) * t.split);
  const auto address = [&](unsigned token) { return t.key<Stored>(kv_head, min(token, end - 1)); };
  global<const Stored> next = nullptr;  // the address of this thread's key in the next tile
  if (begin < end && threadIdx.x < tile::keys) next = address(begin + threadIdx.x);

  uint2 seen[of_warp];
  float most[of_warp], sum[of_warp], o[of_warp][own];
  for (unsigned r = 0; r < of_warp; ++r) {
    const unsigned query = first + warp * of_warp + r;
    seen[r] = query < all ? static_cast<uint2>(t.seen[query / group]) : uint2{0, 0};
    seen[r].y = min(seen[r].y, end);
    most[r] = no_score;
    sum[r] = 0;
    for (unsigned e = 0; e < own; ++e) o[r][e] = 0;
  }

  for (unsigned at = begin; at < end; at += tile::keys) {
    __syncthreads();  // every thread has finished reading the previous tile
    if (threadIdx.x < tile::keys) found[threadIdx.x] = next;
    __syncthreads();
    LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) {
      const unsigned i = j * tile::threads + threadIdx.x, key = i / pieces, d = i % pieces * piece;
      const bool in_head = d < t.pitch, there = in_head && at + key < end;
      const global<const Stored> of_key = found[key];
      const global<const Stored> from = of_key + (in_head ? d : 0);
      copy_async(k + key * pitch + d, from, there);
      copy_async(v + key * pitch + d, from + behind, there);
    }
    commit_copies();
    if (at + tile::keys < end && threadIdx.x < tile::keys) next = address(at + tile::keys + threadIdx.x);
    wait_for_copies<0>();
    __syncthreads();

    float s[of_warp] = {};
    for (unsigned d = 0; d < D; d += piece) {
      float b[piece];
      load_floats<piece>(shared<const Stored>(k + lane * pitch + d), b);
      for (unsigned e = 0; e < piece; e += 4)
        for (unsigned r = 0; r < of_warp; ++r) {
          const float4 a = load<float4>(own_q + r * query_pitch + d + e);
          s[r] += a.x * b[e] + a.y * b[e + 1] + a.z * b[e + 2] + a.w * b[e + 3];
        }
    }
    for (unsigned r = 0; r < of_warp; ++r) {
      const bool sees = seen[r].x <= at + lane && at + lane < seen[r].y;
      const float score = sees ? t.score(s[r]) : no_score;
      const float largest = fmaxf(most[r], warp_most(score)), fade = expf(most[r] - largest);
      const float weight = sees ? expf(score - largest) : 0.0f;
      most[r] = largest;
      sum[r] = sum[r] * fade + weight;  // the sum of the weights of this lane's keys only
      for (unsigned e = 0; e < own; ++e) o[r][e] *= fade;
      p[r * tile::keys + lane] = weight;
    }
    __syncwarp();
    for (unsigned key = 0; key < tile::keys; key += 4) {
      float of_keys[of_warp][4];
      for (unsigned r = 0; r < of_warp; ++r) {
        const float4 four = load<float4>(p + r * tile::keys + key);
        of_keys[r][0] = four.x, of_keys[r][1] = four.y, of_keys[r][2] = four.z, of_keys[r][3] = four.w;
      }
      for (unsigned j = 0; j < 4; ++j)
        for (unsigned e = 0; e < own; e += wide) {
          float number[wide];
          load_floats<wide>(shared<const Stored>(v + (key + j) * pitch + e * warp_lanes + lane * wide), number);
          for (unsigned r = 0; r < of_warp; ++r)
            for (unsigned i = 0; i < wide; ++i) o[r][e + i] += of_keys[r][j] * number[i];
        }
    }
  }

  LAZYPRUNE_UNROLL for (unsigned r = 0; r < of_warp; ++r) {
    const unsigned query = first + warp * of_warp + r;
    const float total = warp_sum(sum[r]);
    if (query >= all) continue;
    const std::size_t row = query / group, column = t.column_of(kv_head, query);
    const std::size_t part = ((static_cast<std::size_t>(blockIdx.z) * t.rows + row) * t.heads + column / t.head_dim) * (2 + t.head_dim);
    if (gridDim.z > 1 && lane == 0) {
      t.parts[part] = most[r];
      t.parts[part + 1] = total;
    }
    LAZYPRUNE_UNROLL for (unsigned e = 0; e < own; ++e) {
      const unsigned d = e / wide * wide * warp_lanes + lane * wide + e % wide;
      if (d >= t.head_dim) continue;
      if (gridDim.z > 1)
        t.parts[part + 2 + d] = o[r][e];
      else
        t.out.write(row, column + d, o[r][e] / total);
    }
  }
}

/// Attention on tensor cores, for keys and values in bf16. Grid (kv_heads, tiles of queries). Queries and attention weights are rounded to
/// bf16, and sums are float. exp2_fast computes the weights. The last tile of queries comes first, because it sees the most keys. Four
/// warps share the tiles of keys and values, and have 16 or 32 queries each. With 32 queries, a warp uses each number of a key or a value
/// for twice as many products. The kernel is then bound by the tensor cores, not by shared memory. A tile of values is copied while scores
/// and weights are computed. The next tile of keys is copied while values are summed.
/// budget attend_tensor<32, 64>: 128 registers, 16384 bytes of shared memory, 4 blocks of 128 threads
/// budget attend_tensor<64, 64>: 168 registers, 28672 bytes of shared memory, 3 blocks of 128 threads
/// budget attend_tensor<128, 64>: 168 registers, 53248 bytes of shared memory, 3 blocks of 128 threads
/// budget attend_tensor<256, 64>: 255 registers, 68096 bytes of shared memory, 2 blocks of 128 threads
/// budget attend_tensor<32, 128>: 168 registers, 21504 bytes of shared memory, 3 blocks of 128 threads
/// budget attend_tensor<64, 128>: 255 registers, 37888 bytes of shared memory, 2 blocks of 128 threads
/// budget attend_tensor<128, 128>: 255 registers, 70656 bytes of shared memory, 2 blocks of 128 threads
template <unsigned D, unsigned Queries>
struct tensor_attention {
  static constexpr unsigned warps = 4, threads = warps * warp_lanes, queries = Queries, keys = D <= 128 ? 64 : 32;
  static constexpr unsigned of_warp = queries / warps;
  static constexpr unsigned blocks = (D > 128 || queries > 64 ? 2 : 3) + (D == 32);  // as many as the registers leave room for
  static constexpr unsigned pitch = D + 8;  // from row to row in shared memory: the eight rows of a matrix are in different banks
  /// The place, in shared memory, of number d of a query, of a key or of a value.
  __device__ __forceinline__ static unsigned place(unsigned row, unsigned d) { return row * pitch + d; }
  static constexpr std::size_t address_bytes = 2 * keys * sizeof(void*);
  static constexpr std::size_t shared_bytes = address_bytes + (queries + 2 * keys) * pitch * sizeof(std::uint16_t);
};

/// Begins the copy of a tile of keys or values into shared memory. Each row begins `skip` numbers after its address in `found`. Tokens from
/// `count` on become zeros. Zeros also pad each head to D numbers.
template <class Tile, unsigned D>
__device__ __forceinline__ void load_tile(shared<global<const std::uint16_t>> found, unsigned skip, unsigned head_pitch, unsigned count,
                                          shared<std::uint16_t> to) {
  constexpr unsigned piece = 8, pieces = D / piece, at_once = Tile::threads / pieces, own = Tile::keys / at_once;
  constexpr unsigned together = own < 4 ? own : 4;
  const unsigned d = threadIdx.x % pieces * piece, first = threadIdx.x / pieces;
  const bool in_head = d < head_pitch;
  const unsigned offset = in_head ? skip + d : skip, left = in_head && first < count ? count - first : 0;
  LAZYPRUNE_UNROLL for (unsigned i = 0; i < own; i += together) {
    global<const std::uint16_t> from[together];
    LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) from[j] = found[first + (i + j) * at_once];
    LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j)
        copy_async(to + Tile::place(first + (i + j) * at_once, d), from[j] + offset, (i + j) * at_once < left);
  }
}

/// Loads a tile of queries into shared memory as bf16. Queries after the last one become zeros. Zeros also pad each head to D numbers.
template <class Tile, unsigned D>
__device__ __forceinline__ void load_queries(const attention_task& t, unsigned kv_head, unsigned first, shared<std::uint16_t> to) {
  constexpr unsigned piece = 8, pieces = D / piece, own = Tile::queries * pieces / Tile::threads, together = own < 4 ? own : 4;
  const unsigned d = threadIdx.x % pieces * piece, all = t.queries(), group = t.group();
  const bool wide = t.q.by_eight(t.head_dim);
  for (unsigned i = 0; i < own; i += together) {
    float x[together][piece];
    LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) {
      LAZYPRUNE_UNROLL for (unsigned e = 0; e < piece; ++e) x[j][e] = 0;
      const unsigned query = first + ((i + j) * Tile::threads + threadIdx.x) / pieces;
      if (query >= all || d >= t.head_dim) continue;
      const std::size_t row = query / group, head = t.column_of(kv_head, query);
      if (wide) {
        t.q.load_eight(row, head, d, x[j]);
      } else {
        LAZYPRUNE_UNROLL for (unsigned e = 0; e < piece; ++e) if (d + e < t.head_dim) x[j][e] = t.q.number(row, head, d + e);
      }
    }
    LAZYPRUNE_UNROLL for (unsigned j = 0; j < together; ++j) {
      const unsigned row = ((i + j) * Tile::threads + threadIdx.x) / pieces;
      store(to + Tile::place(row, d), uint4{pair_of_bf16(x[j][0], x[j][1]), pair_of_bf16(x[j][2], x[j][3]), pair_of_bf16(x[j][4], x[j][5]),
                                            pair_of_bf16(x[j][6], x[j][7])});
    }
  }
}

/// The running softmax of the queries of a warp. A lane has two rows of each of mma's tiles of sixteen rows: lane / 4 and lane / 4 + 8. The
/// index r numbers them 0 and 1. Scores s, and weighted values o, are in mma's tiles of eight columns.
template <unsigned RowTiles>
struct running_softmax {
  float most[RowTiles][2];  // the largest scores, times log2(e)
  float sum[RowTiles][2];   // the sums of the weights of this lane's keys
  float fade[RowTiles][2];  // what the earlier sums are multiplied by, because larger scores have come

  __device__ __forceinline__ running_softmax() {
    LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) most[m][r] = no_score,
                                                                                                               sum[m][r] = 0,
                                                                                                               fade[m][r] = 1;
  }

  /// Takes the scores of a tile, times factor: finds the largest ones and `fade`, and multiplies `sum` by it. Returns true if a larger
  /// score has come for any query of the warp. Then the caller calls fade_out.
  template <unsigned KeyTiles>
  __device__ __forceinline__ bool take(const float (&s)[RowTiles][KeyTiles][4], float factor) {
    bool rose = false;
    LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) {
      float largest = s[m][0][2 * r];
      LAZYPRUNE_UNROLL for (unsigned n = 0; n < KeyTiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 2; ++e) largest =
          fmaxf(largest, s[m][n][2 * r + e]);
      LAZYPRUNE_UNROLL for (unsigned by = 1; by < 4; by *= 2) largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, by));
      const float next = fmaxf(most[m][r], largest * factor);
      rose = rose || next > most[m][r];
      fade[m][r] = exp2_fast(most[m][r] - next);
      sum[m][r] *= fade[m][r];
      most[m][r] = next;
    }
    return __any_sync(all_lanes, rose);
  }

  /// Multiplies the weighted values of earlier tiles by `fade`.
  template <unsigned ValueTiles>
  __device__ __forceinline__ void fade_out(float (&o)[RowTiles][ValueTiles][4]) const {
    LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r)
        LAZYPRUNE_UNROLL for (unsigned n = 0; n < ValueTiles; ++n) {
      o[m][n][2 * r] *= fade[m][r];
      o[m][n][2 * r + 1] *= fade[m][r];
    }
  }

  /// Replaces the scores by weights, and adds these to `sum`.
  template <unsigned KeyTiles>
  __device__ __forceinline__ void weigh(float (&s)[RowTiles][KeyTiles][4], float factor) {
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < KeyTiles; ++n) LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m)
        LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) {
      float &low = s[m][n][2 * r], &high = s[m][n][2 * r + 1];
      low = exp2_fast(low * factor - most[m][r]), high = exp2_fast(high * factor - most[m][r]);
      sum[m][r] += low + high;
    }
  }
};

/// Rounds weights to bf16. The weights of 16 keys then have the layout of mma's left operand.
template <unsigned RowTiles, unsigned KeyTiles>
__device__ __forceinline__ void round_weights(const float (&s)[RowTiles][KeyTiles][4], std::uint32_t (&to)[KeyTiles / 2][RowTiles][4]) {
  LAZYPRUNE_UNROLL for (unsigned n = 0; n < KeyTiles; ++n) LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m)
      LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) to[n / 2][m][n % 2 * 2 + r] = pair_of_bf16(s[m][n][2 * r], s[m][n][2 * r + 1]);
}

/// Replaces products by scores if the task has a soft cap or a scale that is not positive.
template <bool Scaled, unsigned RowTiles, unsigned KeyTiles>
__device__ __forceinline__ void score_all(const attention_task& t, float (&s)[RowTiles][KeyTiles][4]) {
  if constexpr (!Scaled) {
    LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m) LAZYPRUNE_UNROLL for (unsigned n = 0; n < KeyTiles; ++n)
        LAZYPRUNE_UNROLL for (unsigned e = 0; e < 4; ++e) s[m][n][e] = t.score(s[m][n][e]);
  }
}

/// Replaces the scores of keys that a query does not see. `own`: the warp's first query; `at`: the first key; `seen_by(query)`: the range
/// of keys that a query sees.
template <unsigned RowTiles, unsigned KeyTiles, class SeenBy>
__device__ __forceinline__ void hide_unseen(unsigned own, unsigned at, const SeenBy& seen_by, float (&s)[RowTiles][KeyTiles][4]) {
  const unsigned lane = threadIdx.x % warp_lanes;
  LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) {
    const uint2 seen = seen_by(own + m * 16 + r * 8 + lane / 4);
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < KeyTiles; ++n) LAZYPRUNE_UNROLL for (unsigned e = 0; e < 2; ++e) {
      const unsigned key = at + n * 8 + lane % 4 * 2 + e;
      if (key < seen.x || seen.y <= key) s[m][n][2 * r + e] = unseen;
    }
  }
}

/// Writes the results of a warp's queries, which begin with `own`.
template <unsigned RowTiles, unsigned ValueTiles>
__device__ __forceinline__ void write_results(const attention_task& t, unsigned kv_head, unsigned own,
                                              const running_softmax<RowTiles>& softmax, const float (&o)[RowTiles][ValueTiles][4]) {
  const unsigned lane = threadIdx.x % warp_lanes, all = t.queries();
  const bool wide = t.out.by_two() && t.head_dim % 2 == 0;
  LAZYPRUNE_UNROLL for (unsigned m = 0; m < RowTiles; ++m) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 2; ++r) {
    float sum = softmax.sum[m][r];
    LAZYPRUNE_UNROLL for (unsigned by = 1; by < 4; by *= 2) sum += __shfl_xor_sync(all_lanes, sum, by);
    const unsigned query = own + m * 16 + r * 8 + lane / 4;
    if (query >= all) continue;
    const float whole = 1 / sum;
    const std::size_t row = query / t.group(), column = t.column_of(kv_head, query);
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < ValueTiles; ++n) {
      const unsigned d = n * 8 + lane % 4 * 2;
      const float2 two{o[m][n][2 * r] * whole, o[m][n][2 * r + 1] * whole};
      if (wide && d < t.head_dim) {
        t.out.write_two(row, column + d, two);
      } else if (!wide) {
        if (d < t.head_dim) t.out.write(row, column + d, two.x);
        if (d + 1 < t.head_dim) t.out.write(row, column + d + 1, two.y);
      }
    }
  }
}

/// See tensor_attention. `Scaled` is true if a score is a product times a positive scale, without a soft cap.
template <unsigned D, unsigned Queries, bool Scaled>
__global__ void __launch_bounds__(tensor_attention<D, Queries>::threads, tensor_attention<D, Queries>::blocks)
    attend_tensor(attention_task t) {
  wait_for_earlier_work();
  using tile = tensor_attention<D, Queries>;
  constexpr unsigned pitch = tile::pitch, key_tiles = tile::keys / 8, value_tiles = D / 8;  // numbers of mma's tiles of eight columns
  constexpr unsigned row_tiles = tile::of_warp / 16;                                        // number of mma's tiles of sixteen rows
  constexpr float log2_of_e = 1.4426950408889634f;
  const shared<global<const std::uint16_t>> found = shared_memory<global<const std::uint16_t>>(0);
  const shared<std::uint16_t> q = shared_memory<std::uint16_t>(tile::address_bytes), k = q + tile::queries * pitch,
                              v = k + tile::keys * pitch;
  const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, kv_head = blockIdx.x;
  const unsigned first = (gridDim.y - 1 - blockIdx.y) * tile::queries, own = first + warp * tile::of_warp, all = t.queries();
  const auto values = static_cast<unsigned>(stored_kv::block_slots) * t.kv_heads * t.pitch;  // the distance from a key to its value

  // A query after the last one counts as the last one here. Its result is not written.
  const auto seen_by = [&](unsigned query) { return static_cast<uint2>(t.seen[min(query, all - 1) / t.group()]); };
  const unsigned begin = seen_by(first).x, end = seen_by(first + tile::queries - 1).y;
  const uint2 of_first = seen_by(own), of_last = seen_by(own + tile::of_warp - 1);  // this warp's first and last query

  // `found` has the key addresses of two tiles. A thread finds the address of one token in each tile. A token after the last one gets the
  // address of the last one.
  const auto address = [&](unsigned token) { return t.key<std::uint16_t>(kv_head, min(token, end - 1)); };
  const bool finds = threadIdx.x < tile::keys;
  if (finds) {
    found[threadIdx.x] = address(begin + threadIdx.x);
    found[tile::keys + threadIdx.x] = address(begin + tile::keys + threadIdx.x);
  }
  __syncthreads();
  load_tile<tile, D>(found, 0, t.pitch, end - begin, k);
  commit_copies();
  load_queries<tile, D>(t, kv_head, first, q);

  const float factor = Scaled ? t.scale * log2_of_e : log2_of_e;
  running_softmax<row_tiles> softmax;
  float o[row_tiles][value_tiles][4] = {};

  unsigned which = 0;  // the offset of this tile's addresses in `found`: 0 or tile::keys
  for (unsigned at = begin; at < end; at += tile::keys) {
    const bool more = at + tile::keys < end;
    const bool some = own < all && at < of_last.y && of_first.x < at + tile::keys;  // does this warp see any key of the tile?
    wait_for_copies<0>();
    __syncthreads();  // the keys have arrived, and every thread has finished reading the previous values
    load_tile<tile, D>(found + which, values, t.pitch, end - at, v);
    commit_copies();

    std::uint32_t weights[key_tiles / 2][row_tiles][4];
    if (some) {
      float s[row_tiles][key_tiles][4] = {};
      LAZYPRUNE_UNROLL for (unsigned d = 0; d < D; d += 16) {
        std::uint32_t a[row_tiles][4];
        LAZYPRUNE_UNROLL for (unsigned m = 0; m < row_tiles; ++m)
            ldmatrix(a[m], q + (warp * tile::of_warp + m * 16 + lane % 16) * pitch + d + lane / 16 * 8);
        LAZYPRUNE_UNROLL for (unsigned n = 0; n < key_tiles; n += 2) {
          std::uint32_t b[4];
          ldmatrix(b, k + (n * 8 + lane % 8 + lane / 16 * 8) * pitch + d + lane / 8 % 2 * 8);
          LAZYPRUNE_UNROLL for (unsigned m = 0; m < row_tiles; ++m) {
            mma(s[m][n], a[m], {b[0], b[1]});
            mma(s[m][n + 1], a[m], {b[2], b[3]});
          }
        }
      }
      score_all<Scaled>(t, s);
      if (at < of_last.x || of_first.y < at + tile::keys)  // some query of the warp does not see some key of the tile
        hide_unseen(own, at, seen_by, s);
      if (softmax.take(s, factor)) softmax.fade_out(o);
      softmax.weigh(s, factor);
      round_weights(s, weights);
    }
    wait_for_copies<0>();
    __syncthreads();  // the values have arrived, and every thread has finished reading these keys
    if (more) load_tile<tile, D>(found + (tile::keys - which), 0, t.pitch, end - at - tile::keys, k);
    commit_copies();
    global<const std::uint16_t> next = nullptr;  // the address of a key of the tile after the next one; found while values are summed
    if (finds) next = address(at + 2 * tile::keys + threadIdx.x);

    if (some) {
      constexpr unsigned of_keys = value_tiles / 2, steps = key_tiles / 2 * of_keys;
      std::uint32_t b[2][4];  // the values of this step, and those of the next step, which are being loaded
      const auto load_values = [&](unsigned step, std::uint32_t(&to)[4]) {
        ldmatrix_transposed(to, v + (step / of_keys * 16 + lane % 8 + lane / 8 % 2 * 8) * pitch + step % of_keys * 16 + lane / 16 * 8);
      };
      load_values(0, b[0]);
      LAZYPRUNE_UNROLL for (unsigned step = 0; step < steps; ++step) {
        if (step + 1 < steps) load_values(step + 1, b[(step + 1) % 2]);
        const unsigned d = step % of_keys * 2;
        const std::uint32_t(&two)[4] = b[step % 2];
        LAZYPRUNE_UNROLL for (unsigned m = 0; m < row_tiles; ++m) {
          mma(o[m][d], weights[step / of_keys][m], {two[0], two[1]});
          mma(o[m][d + 1], weights[step / of_keys][m], {two[2], two[3]});
        }
      }
    }
    if (finds) found[which + threadIdx.x] = next;
    which = tile::keys - which;
  }

  write_results(t, kv_head, own, softmax, o);
}

/// Attention as attend_tensor computes it, by two warpgroups of 64 queries each, for devices that have wgmma. Grid (kv_heads, tiles of
/// queries). While a warpgroup computes the weights of one tile of keys, the tensor cores multiply the weights of the tile before it by
/// values, and later tiles are copied (FlashAttention-3, arXiv 2407.08608, section 3.2). Shared memory has two tiles of keys and two of
/// values. The budgets are for compute capability 9.0.
/// budget attend_warpgroups<64>: 255 registers, 86016 bytes of shared memory, 1 block of 256 threads
/// budget attend_warpgroups<128>: 255 registers, 167936 bytes of shared memory, 1 block of 256 threads
template <unsigned D>
struct warpgroup_attention {
  static constexpr unsigned groups = 2, threads = groups * 4 * warp_lanes, queries = groups * 64, keys = 128, blocks = 1;
  static constexpr unsigned tile_numbers = keys * D;
  static constexpr unsigned address_tiles = 4;  // a power of two that is more than the three tiles whose addresses are in use
  static constexpr std::size_t tile_bytes = (queries * D + 4 * tile_numbers) * sizeof(std::uint16_t);
  static constexpr std::size_t shared_bytes = tile_bytes + address_tiles * keys * sizeof(void*);
  static_assert(queries == keys);  // `place` serves both
  __device__ __forceinline__ static unsigned place(unsigned row, unsigned d) { return wgmma_place(keys, row, d); }
};

template <unsigned D, bool Scaled>
__global__ void __launch_bounds__(warpgroup_attention<D>::threads, warpgroup_attention<D>::blocks) attend_warpgroups(attention_task t) {
  if constexpr (has_wgmma) {
    wait_for_earlier_work();
    using tile = warpgroup_attention<D>;
    constexpr unsigned key_tiles = tile::keys / 8, value_tiles = D / 8, size = tile::tile_numbers;
    constexpr float log2_of_e = 1.4426950408889634f;
    const shared<std::uint16_t> q = shared_memory<std::uint16_t>(0), k = q + tile::queries * D, v = k + 2 * size;
    const shared<global<const std::uint16_t>> found = shared_memory<global<const std::uint16_t>>(tile::tile_bytes);
    const unsigned warp = threadIdx.x / warp_lanes, kv_head = blockIdx.x, all = t.queries();
    const unsigned first = (gridDim.y - 1 - blockIdx.y) * tile::queries, own = first + warp * 16;
    const auto values = static_cast<unsigned>(stored_kv::block_slots) * t.kv_heads * t.pitch;  // the distance from a key to its value

    // A query after the last one counts as the last one here. Its result is not written.
    const auto seen_by = [&](unsigned query) { return static_cast<uint2>(t.seen[min(query, all - 1) / t.group()]); };
    const unsigned begin = seen_by(first).x, end = seen_by(first + tile::queries - 1).y;
    const unsigned tiles = (end - begin + tile::keys - 1) / tile::keys;
    const uint2 of_first = seen_by(own), of_last = seen_by(own + 15);  // this warp's first and last query

    // `found` has the key addresses of this tile and of the next two. A token after the last one gets the address of the last one.
    const auto address = [&](unsigned of_tile) {
      return t.key<std::uint16_t>(kv_head, min(begin + of_tile * tile::keys + threadIdx.x, end - 1));
    };
    const auto found_of = [&](unsigned of_tile) { return found + of_tile % tile::address_tiles * tile::keys; };
    const bool finds = threadIdx.x < tile::keys;
    if (finds)
      for (unsigned i = 0; i < 3; ++i) found_of(i)[threadIdx.x] = address(i);
    const auto load_keys = [&](unsigned i) {
      if (i < tiles) load_tile<tile, D>(found_of(i), 0, t.pitch, end - begin - i * tile::keys, k + i % 2 * size);
    };
    const auto load_values = [&](unsigned i) {
      if (i < tiles) load_tile<tile, D>(found_of(i), values, t.pitch, end - begin - i * tile::keys, v + i % 2 * size);
    };
    __syncthreads();
    load_keys(0);
    commit_copies();
    load_values(0), load_keys(1);
    commit_copies();
    load_queries<tile, D>(t, kv_head, first, q);

    const float factor = Scaled ? t.scale * log2_of_e : log2_of_e;
    running_softmax<1> softmax;
    float s[1][key_tiles][4] = {}, o[1][value_tiles][4] = {};
    std::uint32_t weights[key_tiles / 2][1][4] = {};

    const wgmma_operand own_q = wgmma_operand(q, tile::queries).from(tile::place(warp / 4 * 64, 0));
    const wgmma_operand all_k(k, tile::keys), all_v(v, tile::keys);
    const auto begin_scores = [&](unsigned i) {
      LAZYPRUNE_UNROLL for (unsigned d = 0; d < D; d += 16)
          wgmma(s[0], own_q.from(tile::place(0, d)), all_k.from(i % 2 * size + tile::place(0, d)), d > 0);
      wgmma_commit();
    };
    const auto begin_sums = [&](unsigned i) {
      LAZYPRUNE_UNROLL for (unsigned key = 0; key < tile::keys; key += 16)
          wgmma_by_rows(o[0], weights[key / 16][0], all_v.from(i % 2 * size + tile::place(key, 0)));
      wgmma_commit();
    };
    // Turns the products of tile i into weights.
    bool fades = false;
    const auto weigh = [&](unsigned i) {
      const unsigned at = begin + i * tile::keys;
      score_all<Scaled>(t, s);
      if (at < of_last.x || of_first.y < at + tile::keys) hide_unseen(own, at, seen_by, s);
      fades = softmax.take(s, factor);
      softmax.weigh(s, factor);
      wgmma_pin(s[0]);
    };
    // Prepares the sums of a tile, whose weights are in s, when those of the tile before it are complete, and all copies have arrived.
    const auto join = [&] {
      wgmma_wait<0>(o[0], weights);
      if (fades) softmax.fade_out(o);
      round_weights(s, weights);
      wait_for_copies<0>();
      wgmma_publish();
      __syncthreads();  // all warps have finished with the tiles before this one
      wgmma_fence();
    };

    wait_for_copies<1>();
    wgmma_publish();
    __syncthreads();  // the queries and the first keys have arrived
    wgmma_fence();
    begin_scores(0);
    wgmma_wait<0>(s[0]);
    weigh(0);
    for (unsigned i = 0; i + 1 < tiles; ++i) {
      join();
      begin_scores(i + 1);
      begin_sums(i);
      load_values(i + 1), load_keys(i + 2);
      commit_copies();
      global<const std::uint16_t> next = nullptr;
      if (finds) next = address(i + 3);
      wgmma_wait<1>(s[0]);
      weigh(i + 1);  // the wait for the sums is in the next iteration, because ptxas would move it up, before the weights are computed
      if (finds) found_of(i + 3)[threadIdx.x] = next;
    }
    join();
    begin_sums(tiles - 1);
    wgmma_wait<0>(o[0], weights);
    write_results(t, kv_head, own, softmax, o);
  }
}

inline constexpr unsigned most_splits = 64;

/// Joins the results of the splits. Grid (rows, heads). First, each thread computes the factor of one split in the sum. Then each thread
/// adds up one dimension over some of the splits, and loads the numbers of eight splits at a time. Other threads add up the same dimension
/// over the other splits.
/// budget join_splits: 32 registers, 2368 bytes of shared memory, 4 blocks of 512 threads
struct split_join {
  static constexpr unsigned threads = 512;
  static constexpr std::size_t shared_bytes = (most_splits + threads + threads / warp_lanes) * sizeof(float);
};

template <class Task>
__global__ void __launch_bounds__(split_join::threads, 4) join_splits(Task t, unsigned splits) {
  wait_for_earlier_work();
  const shared<float> share = shared_memory<float>(0), sums = share + most_splits, room = sums + split_join::threads;
  const std::size_t step = static_cast<std::size_t>(t.rows) * t.heads * (2 + t.head_dim);
  const global<float> part = t.parts + (static_cast<std::size_t>(blockIdx.x) * t.heads + blockIdx.y) * (2 + t.head_dim);
  const bool has_split = threadIdx.x < splits;
  const float most = has_split ? static_cast<float>(part[threadIdx.x * step]) : no_score;
  const float sum = has_split ? static_cast<float>(part[threadIdx.x * step + 1]) : 0.0f;
  const float own = expf(most - block_most(most, room));
  if (has_split) share[threadIdx.x] = own;
  __syncthreads();
  const float total = block_sum(own * sum, room);

  const unsigned width = (t.head_dim + warp_lanes - 1) / warp_lanes * warp_lanes, turns = split_join::threads / width;
  const unsigned d = threadIdx.x % width;
  float x = 0;
  if (threadIdx.x < turns * width && d < t.head_dim)
    for (unsigned i = threadIdx.x / width; i < splits; i += 8 * turns)
      LAZYPRUNE_UNROLL for (unsigned of_eight = 0; of_eight < 8; ++of_eight) {
        const unsigned split = i + of_eight * turns;
        if (split < splits) x += share[split] * part[split * step + 2 + d];
      }
  sums[threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.x >= t.head_dim) return;
  for (unsigned turn = 1; turn < turns; ++turn) x += sums[turn * width + threadIdx.x];
  t.out.write(blockIdx.x, static_cast<std::size_t>(blockIdx.y) * t.head_dim + threadIdx.x, x / total);
}

/// Computes the scores of the rows from first_row on with all `active` tokens: out (rows - first_row, heads, active). A token that a row
/// does not see gets no_score. Each thread has one key, and goes through the heads that share it. Grid (tiles of keys, kv_heads, rows -
/// first_row). Shared memory holds the queries of the heads that share a key: (group, pitch) floats. The budget is for a group of 4 queries
/// of 256 numbers. With a larger group, fewer blocks fit.
/// budget probe_scores: 64 registers, 4096 bytes of shared memory, 8 blocks of 128 threads
template <class Stored>
__global__ void probe_scores(attention_task t, unsigned first_row, unsigned active, global<float> out) {
  wait_for_earlier_work();
  constexpr unsigned piece = 16 / sizeof(Stored), together = 4;
  const shared<float> q = shared_memory<float>(0);
  const unsigned kv_head = blockIdx.y, row = first_row + blockIdx.z, group = t.group();
  for (unsigned i = threadIdx.x; i < group * t.pitch; i += blockDim.x) {
    const unsigned d = i % t.pitch, head = kv_head * group + i / t.pitch;
    q[i] = d < t.head_dim ? t.q.number(row, static_cast<std::size_t>(head) * t.head_dim, d) : 0.0f;
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

/// Turns scores (rows, active) into probabilities, in place. Grid (rows), with one float of shared memory for each warp.
template <class Scalar>
__global__ void softmax_rows(global<Scalar> x, unsigned active) {
  wait_for_earlier_work();
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

/// Reduces the probabilities x (rows, heads, active) over the heads. The result (active) of each row replaces the probabilities of
/// the row's first head. Grid (pieces of the active tokens, rows). Each thread has one token. It adds the heads in double, one after the
/// other, so the result has the same bits as the host's reduce_heads.
template <class Scalar>
__global__ void reduce_rows(global<Scalar> x, unsigned heads, unsigned active, head_reduction over) {
  wait_for_earlier_work();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= active) return;
  const global<Scalar> row = x + static_cast<std::size_t>(blockIdx.y) * heads * active + i;
  double sum = 0;
  float most = 0;  // no probability is less
  for (unsigned h = 0; h < heads; ++h) {
    const float probability = row[static_cast<std::size_t>(h) * active];
    sum += static_cast<double>(probability);
    most = fmaxf(most, probability);
  }
  row[0] = over == head_reduction::mean ? static_cast<float>(sum / static_cast<double>(heads)) : most;
}

/// Reduces the probabilities x (queries, heads, active) of one head over the queries, for each probe: out (probes, active). A probe is a
/// head and a query_reduction. Grid (pieces of the active tokens, probes). Each thread has one token. It adds the queries in double, one
/// after the other, so the result has the same bits as the host's reduce_queries.
template <class Scalar>
__global__ void reduce_probes(global<const Scalar> x, unsigned queries, unsigned heads, unsigned active, global<const uint2> probes,
                              global<Scalar> out) {
  wait_for_earlier_work();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= active) return;
  const uint2 probe = probes[blockIdx.y];
  const auto over = static_cast<query_reduction>(probe.y);
  double sum = 0;
  float most = 0, last = 0;  // no probability is less
  for (unsigned q = over == query_reduction::last ? queries - 1 : 0; q < queries; ++q) {
    last = x[(static_cast<std::size_t>(q) * heads + probe.x) * active + i];
    sum += static_cast<double>(last);
    most = fmaxf(most, last);
  }
  out[static_cast<std::size_t>(blockIdx.y) * active + i] = over == query_reduction::mean
                                                               ? static_cast<float>(sum / static_cast<double>(queries))
                                                           : over == query_reduction::max ? most
                                                                                          : last;
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
