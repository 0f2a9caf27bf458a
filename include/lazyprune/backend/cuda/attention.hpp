// SPDX-License-Identifier: MIT
// Attention of rows over a KV cache on the device. This header chooses the kernels, fills their arguments, and splits keys among thread
// blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <lazyprune/backend/cuda/attention.cuh>
#include <lazyprune/backend/cuda/launch.hpp>
#include <lazyprune/backend/cuda/lists.hpp>
#include <lazyprune/backend/cuda/locked_memory.hpp>
#include <lazyprune/backend/cuda/memory.hpp>
#include <lazyprune/backend/cuda/stored_kv.hpp>
#include <lazyprune/backend/cuda/work_order.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
namespace device {

class attention_layer {
 public:
  /// `exact`: queries and attention weights stay float even if keys and values are bf16.
  explicit attention_layer(bool exact) : exact_(exact) {}

  /// Returns the least number of tiles of 128 queries for which kernels use such tiles. Fewer do not fill the device, and then tiles of 64
  /// queries are faster.
  std::size_t wide_tiles() const { return wide_tiles_; }

  std::size_t bytes() const { return parts_.bytes() + scores_.bytes() + rows_of_probes_.bytes(); }

  /// Reserves scratch for attention up to these sizes.
  void reserve(const operation_sizes& most) {
    const auto [heads, kv_heads, head_dim] = most.shape;
    if (splits_of(most.active) > 1) parts_.reserve(part_floats(splits_of(most.active), std::min(most.block, few_rows), heads, head_dim));
    scores_.reserve(most.queries * heads * most.active);
    if (most.queries > 1) rows_of_probes_.reserve(3 * heads * most.active);  // each head may have a probe for each reduction
  }

  /// The probabilities of the last probe, on the device. If the probe reduced the heads of one query, they are one row (active).
  const float* probed() { return scores_.reserve(0); }

  /// Writes the attention of `q` to `out`. Both are (what.rows, heads * head_dim). If q.by.table is set, the rows of q are rotated to
  /// `positions`. When this function returns, the probe's probabilities are on the host. If the probe reduces heads, only one row for each
  /// query is copied to the host. If its `data` is null, nothing is copied, and the row stays on the device (probed). Throws `error`
  /// (unsupported) if head_dim is more than 256.
  void attend(const query_rows& q, const row_positions& positions, const stored_kv& kv, const attention_rows& what, any_rows out,
              const attention_probe& probe, lists& lists, read_back& back) {
    if (what.rows.empty()) return;
    attention_task t = task_of(q, positions, kv, what, out, lists);
    const std::size_t head_dim = what.shape.head_dim;
    if (head_dim <= 32)
      by_type<32>(kv.type(), t, what);
    else if (head_dim <= 64)
      by_type<64>(kv.type(), t, what);
    else if (head_dim <= 128)
      by_type<128>(kv.type(), t, what);
    else
      by_type<256>(kv.type(), t, what);
    if (probe.queries == 0) return;
    if (kv.type() == dtype::bf16)
      show<std::uint16_t>(t, what, probe, lists, back);
    else
      show<float>(t, what, probe, lists, back);
  }

 private:
  static constexpr std::size_t few_rows = 16;     // up to this many rows have too few tiles of queries to fill a device, so keys are split
  static constexpr std::size_t least_split = 64;  // only the last split has fewer keys
  attention_task task_of(const query_rows& q, const row_positions& positions, const stored_kv& kv, const attention_rows& what, any_rows out,
                         lists& lists) {
    const auto [heads, kv_heads, head_dim] = what.shape;
    if (head_dim > 256) throw error("cuda", "attention", "heads of 256 numbers at most", std::to_string(head_dim), error_code::unsupported);
    seen_.clear();
    for (const position row : what.rows) {
      const auto end = std::ranges::upper_bound(what.active, row);
      const position earliest =
          what.variant.window > 0 && row >= what.variant.window ? static_cast<position>(row - what.variant.window + 1) : 0;
      const auto begin = std::lower_bound(what.active.begin(), end, earliest);
      seen_.push_back({static_cast<unsigned>(begin - what.active.begin()), static_cast<unsigned>(end - what.active.begin())});
    }
    const bool run = what.slots.back() - what.slots.front() == what.slots.size() - 1 && std::ranges::is_sorted(what.slots);
    const auto [seen, blocks, slots, sent] =
        lists.send(std::span<const uint2>(seen_), kv.addresses(blocks_), run ? what.slots.first(0) : what.slots, positions.on_host);
    attention_task t{};
    t.q = q;
    t.q.by.positions = positions.in_backend ? positions.in_backend : sent;
    t.out = out;
    t.seen = seen;
    t.slots = slots;
    t.first_slot = what.slots.front();
    t.blocks = blocks;
    t.rows = static_cast<unsigned>(what.rows.size());
    t.heads = static_cast<unsigned>(heads);
    t.kv_heads = static_cast<unsigned>(kv_heads);
    t.head_dim = static_cast<unsigned>(head_dim);
    t.pitch = static_cast<unsigned>(kv.pitch());
    t.scale = static_cast<float>(what.variant.scale != 0 ? what.variant.scale : 1 / std::sqrt(static_cast<double>(head_dim)));
    t.soft_cap = static_cast<float>(what.variant.soft_cap);
    return t;
  }

  template <unsigned D>
  void by_type(dtype type, attention_task& t, const attention_rows& what) {
    if (type == dtype::f32) return exact<float, D>(t, what);
    if (exact_ || what.all_rows().size() <= few_rows) return exact<std::uint16_t, D>(t, what);
    if constexpr (D <= 128)
      if (tiles_of(t, 128) * t.kv_heads >= wide_tiles_) return on_many_tiles<D>(t);
    on_tensor_cores<D, 64>(t);
  }

  template <unsigned D>
  void on_many_tiles(const attention_task& t) const {
    if constexpr (D >= 64)
      if (wgmma_) return give_tiles<warpgroup_attention<D>>(attend_warpgroups<D, false>, attend_warpgroups<D, true>, t);
    on_tensor_cores<D, 128>(t);
  }

  static unsigned tiles_of(const attention_task& t, unsigned queries) { return (t.rows * (t.heads / t.kv_heads) + queries - 1) / queries; }

  template <unsigned D, unsigned Queries>
  static void on_tensor_cores(const attention_task& t) {
    give_tiles<tensor_attention<D, Queries>>(attend_tensor<D, Queries, false>, attend_tensor<D, Queries, true>, t);
  }

  /// Launches `scaled` if a score is a product times a positive scale, without a soft cap. Otherwise launches `any`.
  template <class Tile>
  static void give_tiles(void (*any)(attention_task), void (*scaled)(attention_task), const attention_task& t) {
    launch_early(t.soft_cap > 0 || t.scale <= 0 ? any : scaled, {t.kv_heads, tiles_of(t, Tile::queries)}, {Tile::threads},
                 Tile::shared_bytes, t);
  }

  // For steps with few rows, these functions return how many active tokens a split has, how many splits there are, and how many floats
  // the results of all splits take.
  static std::size_t split_of(std::size_t active) { return std::max<std::size_t>(least_split, (active + most_splits - 1) / most_splits); }
  static std::size_t splits_of(std::size_t active) { return (active + split_of(active) - 1) / split_of(active); }
  static std::size_t part_floats(std::size_t splits, std::size_t rows, std::size_t heads, std::size_t head_dim) {
    return splits * rows * heads * (2 + head_dim);
  }

  template <class Stored, unsigned D>
  void exact(attention_task& t, const attention_rows& what) {
    const std::size_t active = what.active.size();
    t.split = static_cast<unsigned>(active);
    if (what.all_rows().size() > few_rows) return give<exact_attention<Stored, D, 4>>(attend_exact<Stored, D, 4>, t, 1);
    t.split = static_cast<unsigned>(split_of(active));
    const auto splits = static_cast<unsigned>(splits_of(active));
    if (splits > 1) t.parts = parts_.reserve(part_floats(splits, t.rows, t.heads, t.head_dim));
    give<exact_attention<Stored, D, 1>>(attend_exact<Stored, D, 1>, t, splits);
    if (splits > 1)
      launch_early(join_splits<attention_task>, {t.rows, t.heads}, {split_join::threads}, split_join::shared_bytes, t, splits);
  }

  template <class Tile>
  static void give(void (*kernel)(attention_task), const attention_task& t, unsigned splits) {
    launch_early(kernel, {tiles_of(t, Tile::queries), t.kv_heads, splits}, {Tile::threads}, Tile::shared_bytes, t);
  }

  template <class Stored>
  void show(const attention_task& t, const attention_rows& what, const attention_probe& probe, lists& lists, read_back& back) {
    constexpr unsigned threads = 128;
    const auto active = static_cast<unsigned>(what.active.size()), queries = static_cast<unsigned>(probe.queries);
    float* const scores = scores_.reserve(static_cast<std::size_t>(queries) * t.heads * active);
    launch_early(probe_scores<Stored>, {(active + threads - 1) / threads, t.kv_heads, queries}, {threads},
                 t.heads / t.kv_heads * t.pitch * sizeof(float), t, t.rows - queries, active, scores);
    const unsigned of_row = threads_for(active);
    launch_early(softmax_rows<float>, {queries * t.heads}, {of_row}, of_row / warp_lanes * sizeof(float), scores, active);
    if (!probe.probes.empty()) return show_probes(t, active, scores, probe, lists, back);
    if (probe.over_heads)
      launch_early(reduce_rows<float>, {(active + threads - 1) / threads, queries}, {threads}, 0, scores, t.heads, active,
                   *probe.over_heads);
    if (!probe.data) return;
    const std::size_t shown = probe.heads(what.shape), width = active * sizeof(float);
    back.copy(probe.data, probe.stride * sizeof(float), scores, t.heads / shown * width, width, queries * shown);
  }

  /// Reduces the probabilities (queries, heads, active) to one row for each probe, and copies these rows to the host.
  void show_probes(const attention_task& t, unsigned active, const float* probabilities, const attention_probe& probe, lists& lists,
                   read_back& back) {
    constexpr unsigned threads = 128;
    probed_.clear();
    for (const head_probe& p : probe.probes) probed_.push_back({p.head, static_cast<unsigned>(p.over)});
    const auto [probes] = lists.send(std::span<const uint2>(probed_));
    float* const rows = rows_of_probes_.reserve(probed_.size() * active);
    launch_early(reduce_probes<float>, {(active + threads - 1) / threads, static_cast<unsigned>(probed_.size())}, {threads}, 0,
                 probabilities, static_cast<unsigned>(probe.queries), t.heads, active, probes, rows);
    const std::size_t width = active * sizeof(float);
    back.copy(probe.data, probe.stride * sizeof(float), rows, width, width, probed_.size());
  }

  bool exact_, wgmma_ = kernels_have_wgmma();
  std::size_t wide_tiles_ = 3 * static_cast<std::size_t>(attribute_of_device(cudaDevAttrMultiProcessorCount)) / 2;
  std::vector<uint2> seen_, probed_;
  std::vector<const void*> blocks_;
  scratch<float> parts_;           // results of splits: see attention_task
  scratch<float> scores_;          // (probed rows, heads, active)
  scratch<float> rows_of_probes_;  // (probes, active)
};

}  // namespace device
}  // namespace v0
}  // namespace lazyprune
