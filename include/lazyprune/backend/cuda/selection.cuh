// SPDX-License-Identifier: MIT
// Selects tokens on the device, by the rules of session/engine_choice.hpp, and makes the lists that follow from a selection. All arguments
// are raw pointers into device memory, so any engine can call these kernels. Several selections can be queued one after another without
// a stop of the host: each one reads the list that the one before it wrote.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <lazyprune/backend/cuda/elementwise.cuh>
#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

/// The arguments of choose_tokens. The candidates are the active tokens of a layer, in the order of their positions. They are some of
/// the active tokens of a first layer: `in_first_layer` has their indices there. The arrays `positions` and `standing` are those of the
/// first layer. So they are sent to the device once, for the selections of all layers.
struct token_selection {
  global<const float> scores;                   // (active)
  global<const std::uint32_t> in_first_layer;   // (active) ascending; null: 0, 1, 2, ...
  global<const position> positions;             // (tokens of the first layer) ascending; null if `page` is 1
  global<const candidacy> standing;             // (tokens of the first layer)
  unsigned active;                              // the number of candidates, the excluded ones included
  unsigned count;                               // the number of candidates that stay: selection_quota::count
  unsigned page;                                // selection_quota::page
  global<std::uint32_t> scratch;                // (2 active)
  global<std::uint32_t> chosen;                 // (count) out: the candidates that stay, ascending; then 0, if fewer stay
  global<std::uint32_t> chosen_in_first_layer;  // (count) out: `in_first_layer` of the next selection. Or null
  global<std::uint32_t> dropped;                // (active - count) out: the other candidates without the excluded ones, ascending. Or null
  global<std::uint32_t> numbers;                // (3) out: how many candidates are chosen, dropped, and have a score that is not finite
};

/// The one thread block of choose_tokens. Its shared memory holds 256 counters, a number for each warp, and four numbers more.
struct selection_block {
  static constexpr unsigned bins = 256, most_threads = 1024;
  static constexpr unsigned warp_totals = bins, digit_found = bins + warp_lanes, left = digit_found + 1, not_finite = digit_found + 2;
  static constexpr std::size_t shared_bytes = (bins + warp_lanes + 4) * sizeof(std::uint32_t);
  static constexpr unsigned threads_for(std::size_t active) {
    const std::size_t warps = (active + 2 * warp_lanes - 1) / (2 * warp_lanes);
    return warp_lanes * static_cast<unsigned>(std::min<std::size_t>(std::max<std::size_t>(warps, 1), most_threads / warp_lanes));
  }
};

/// An integer that has the same order as the score, as in policy/detail/order.hpp: -0 and 0 are equal. NaN counts as -inf. +inf counts as
/// the largest finite number, because only required tokens have the key of +inf.
__device__ __forceinline__ std::uint32_t selection_key(float score) {
  constexpr std::uint32_t of_minus_infinity = 0x007fffffu, of_largest = 0xff7fffffu;
  const std::uint32_t bits = __float_as_uint(score + 0.0f), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return of_minus_infinity;
  const std::uint32_t key = bits >> 31 ? ~bits : bits | 0x80000000u;
  return key > of_largest ? of_largest : key;
}
inline constexpr std::uint32_t excluded_key = 0, required_selection_key = 0xff800000u;

/// Returns the sum of the numbers of the block's threads before this one. All threads of the block call it. `total` becomes the sum of all
/// numbers. `room` is shared memory, a number for each warp.
__device__ __forceinline__ std::uint32_t sum_before(std::uint32_t number, shared<std::uint32_t> room, std::uint32_t& total) {
  const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  std::uint32_t up_to = number;
  for (unsigned by = 1; by < warp_lanes; by *= 2) {
    const std::uint32_t before = __shfl_sync(all_lanes, up_to, lane >= by ? lane - by : lane);
    if (lane >= by) up_to += before;
  }
  __syncthreads();  // the room may still be in use
  if (lane == warp_lanes - 1) room[warp] = up_to;
  __syncthreads();
  std::uint32_t before = 0;
  total = 0;
  for (unsigned w = 0; w < blockDim.x / warp_lanes; ++w) {
    if (w == warp) before = total;
    total += room[w];
  }
  return before + up_to - number;
}

/// Finds the largest digit d for which at least `left` of the counted numbers have the digit d or a larger one. Writes it to shared memory,
/// and how many of the numbers with that digit are among the largest `left`. The first warp calls it.
__device__ __forceinline__ void find_digit(shared<std::uint32_t> memory) {
  using block = selection_block;
  constexpr unsigned of_lane = block::bins / warp_lanes;
  const unsigned lane = threadIdx.x;
  const std::uint32_t left = memory[block::left];
  std::uint32_t mine = 0;
  for (unsigned i = 0; i < of_lane; ++i) mine += memory[lane * of_lane + i];
  std::uint32_t from_here = mine;  // the sum of this lane's bins and those of all later lanes
  for (unsigned by = 1; by < warp_lanes; by *= 2) {
    const std::uint32_t after = __shfl_sync(all_lanes, from_here, lane + by < warp_lanes ? lane + by : lane);
    if (lane + by < warp_lanes) from_here += after;
  }
  std::uint32_t above = from_here - mine;
  __syncwarp();
  if (above >= left || from_here < left) return;  // another lane has the digit
  unsigned digit = lane * of_lane + of_lane - 1;
  for (; above + memory[digit] < left; --digit) above += memory[digit];
  memory[block::digit_found] = digit;
  memory[block::left] = left - above;
}

__device__ __forceinline__ std::uint32_t index_in_first_layer(const token_selection& s, unsigned candidate) {
  return s.in_first_layer ? s.in_first_layer[candidate] : static_cast<std::uint32_t>(candidate);
}

/// Writes the key of each candidate to `keys`. If pages compete, all candidates of a page get its largest key, and `later` gets how many
/// candidates of the page follow each one.
__device__ __forceinline__ void find_keys(const token_selection& s, unsigned first, unsigned last, global<std::uint32_t> keys,
                                          global<std::uint32_t> later, shared<std::uint32_t> memory) {
  const auto token = [&](unsigned i) { return index_in_first_layer(s, i); };
  for (unsigned i = first; i < last; ++i) {
    const candidacy standing = s.standing[token(i)];
    const float score = s.scores[i];
    if ((__float_as_uint(score) & 0x7f800000u) == 0x7f800000u) atomicAdd(memory + selection_block::not_finite, std::uint32_t{1});
    keys[i] = standing == candidacy::excluded   ? excluded_key
              : standing == candidacy::required ? required_selection_key
                                                : selection_key(score);
  }
  if (s.page == 1) return;
  __syncthreads();
  const auto page = [&](unsigned i) { return s.positions[token(i)] / s.page; };
  const auto takes_part = [&](unsigned i) { return s.standing[token(i)] != candidacy::excluded; };
  for (unsigned i = first; i < last; ++i) {
    if (!takes_part(i)) continue;
    unsigned before = i;  // the first candidate of a page does the work for all of them
    while (before > 0 && !takes_part(before - 1)) --before;
    const std::uint32_t this_page = page(i);
    if (before > 0 && page(before - 1) == this_page) continue;
    std::uint32_t most = 0, members = 0;
    unsigned end = i;
    for (; end < s.active; ++end) {
      if (!takes_part(end)) continue;
      if (page(end) != this_page) break;
      const std::uint32_t key = keys[end];
      most = key > most ? key : most;
      ++members;
    }
    for (unsigned j = i; j < end; ++j) {
      if (!takes_part(j)) continue;
      keys[j] = most;
      later[j] = --members;
    }
  }
}

/// Chooses `count` candidates: the required ones and then those with the best scores. Grid (1), selection_block::threads_for(active)
/// threads. Each thread has a run of neighbouring candidates. The key of the last token that stays is found byte by byte, from counters of
/// the values of each byte.
/// budget choose_tokens: 64 registers, 1168 bytes of shared memory, 1 block of 1024 threads
template <class = void>
__global__ void __launch_bounds__(selection_block::most_threads, 1) choose_tokens(token_selection s) {
  using block = selection_block;
  const shared<std::uint32_t> memory = shared_memory<std::uint32_t>(0);
  const global<std::uint32_t> keys = s.scratch, later = s.scratch + s.active;
  const unsigned run = (s.active + blockDim.x - 1) / blockDim.x, first = threadIdx.x * run < s.active ? threadIdx.x * run : s.active,
                 last = first + run < s.active ? first + run : s.active;
  if (threadIdx.x == 0) {
    memory[block::left] = s.count;
    memory[block::digit_found] = 0;  // stays 0 if there are fewer candidates than `count`: all of them stay
    memory[block::not_finite] = 0;
  }
  wait_for_earlier_work();
  __syncthreads();
  find_keys(s, first, last, keys, later, memory);

  std::uint32_t cut = 0;
  for (unsigned shift = 32; shift > 0;) {
    shift -= 8;
    for (unsigned i = threadIdx.x; i < block::bins; i += blockDim.x) memory[i] = 0;
    __syncthreads();
    for (unsigned i = first; i < last; ++i) {
      const std::uint32_t key = keys[i];
      if (key != excluded_key && (shift == 24 || (key ^ cut) >> (shift + 8) == 0))
        atomicAdd(memory + (key >> shift & 0xffu), std::uint32_t{1});
    }
    __syncthreads();
    if (threadIdx.x < warp_lanes) find_digit(memory);
    __syncthreads();
    cut |= memory[block::digit_found] << shift;
  }
  const std::uint32_t room = memory[block::left];  // how many candidates with the key `cut` stay

  std::uint32_t equal = 0, all_equal = 0;
  for (unsigned i = first; i < last; ++i) equal += keys[i] == cut;
  std::uint32_t equal_so_far = sum_before(equal, memory + block::warp_totals, all_equal);
  // The later ones of the candidates with equal keys stay: those that fewer than `room` such candidates follow, without their own page.
  const auto stays = [&](unsigned i, std::uint32_t& up_to) {
    const std::uint32_t key = keys[i];
    if (key == excluded_key || key < cut) return false;
    if (key > cut) return true;
    ++up_to;
    return key == required_selection_key || all_equal - up_to - (s.page == 1 ? 0 : later[i]) < room;
  };
  std::uint32_t staying = 0, going = 0, up_to = equal_so_far;
  for (unsigned i = first; i < last; ++i) {
    if (stays(i, up_to))
      ++staying;
    else if (keys[i] != excluded_key)
      ++going;
  }
  std::uint32_t all_staying = 0, all_going = 0;
  std::uint32_t chosen = sum_before(staying, memory + block::warp_totals, all_staying);
  std::uint32_t dropped = sum_before(going, memory + block::warp_totals, all_going);
  for (unsigned i = first; i < last; ++i) {
    if (stays(i, equal_so_far)) {
      if (chosen < s.count) {
        s.chosen[chosen] = i;
        if (s.chosen_in_first_layer) s.chosen_in_first_layer[chosen] = index_in_first_layer(s, i);
      }
      ++chosen;
    } else if (keys[i] != excluded_key) {
      if (s.dropped && dropped < s.active - s.count) s.dropped[dropped] = i;
      ++dropped;
    }
  }
  // If fewer candidates stay or go than the host expects, other kernels still read whole lists. So these lists have no index past a row.
  for (unsigned i = all_staying + threadIdx.x; i < s.count; i += blockDim.x) {
    s.chosen[i] = 0;
    if (s.chosen_in_first_layer) s.chosen_in_first_layer[i] = 0;
  }
  if (s.dropped)
    for (unsigned i = all_going + threadIdx.x; i < s.active - s.count; i += blockDim.x) s.dropped[i] = 0;
  if (threadIdx.x != 0) return;
  s.numbers[0] = all_staying;
  s.numbers[1] = all_going;
  s.numbers[2] = memory[block::not_finite];
}

/// to[i] = from[list[i]]: the positions or slots of chosen tokens. Grid (count / block, rounded up).
template <class = void>
__global__ void gather_numbers(global<const std::uint32_t> from, global<const std::uint32_t> list, unsigned count,
                               global<std::uint32_t> to) {
  wait_for_earlier_work();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[list[i]];
}

/// The places of the rows of a memory: row r begins (r % in_block) * pitch bytes after blocks[r / in_block]. If `blocks` is null, row r
/// begins r * pitch bytes after `first`.
struct row_places {
  char* first;
  std::size_t pitch;
  global<char* const> blocks;
  unsigned in_block;

  __device__ __forceinline__ char* row(std::uint32_t r) const {
    return blocks ? blocks[r / in_block] + r % in_block * pitch : first + r * pitch;
  }
};

/// Lists the moves of chosen or dropped rows for move_rows: moves[i] goes from row from_rows[i] of `from` to row to_rows[i] of `to`. A list
/// of rows that is null stands for 0, 1, 2, ... Grid (count / block, rounded up).
template <class = void>
__global__ void list_moves(row_places from, global<const std::uint32_t> from_rows, row_places to, global<const std::uint32_t> to_rows,
                           unsigned count, global<row_move> moves) {
  wait_for_earlier_work();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  moves[i] = row_move{from.row(from_rows ? from_rows[i] : i), to.row(to_rows ? to_rows[i] : i)};
}

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
