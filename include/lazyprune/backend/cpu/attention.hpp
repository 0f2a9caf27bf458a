// SPDX-License-Identifier: MIT
// Attention without the matrix of all scores: strips of queries meet blocks of keys, and a running softmax joins what they yield
// (FlashAttention, arXiv 2205.14135). Queries of all heads that share a key/value head stand in one strip. Keys are taken in the order
// of their slots, whichever tokens they belong to: which of them a row may look at is a comparison of ranks, so that a whole prefill, a
// subset of active tokens and revived rows are one computation.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <lazyprune/backend/cpu/elementwise.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>
#include <lazyprune/backend/cpu/packed_kv.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {
inline namespace LAZYPRUNE_COMPILED_ISA {

/// Of every slot of a cache, the index of its token among the active ones.
class key_ranks {
 public:
  static constexpr std::int32_t inactive = std::numeric_limits<std::int32_t>::max();
  static constexpr std::size_t tile = kernels::tile_outputs;

  void set(std::span<const std::uint32_t> slots, std::size_t blocks) {
    ranks_.assign(blocks * packed_kv::block_slots, inactive);
    for (std::size_t i = 0; i < slots.size(); ++i) ranks_[slots[i]] = static_cast<std::int32_t>(i);
    tiles_.resize(ranks_.size() / tile);
    for (std::size_t t = 0; t < tiles_.size(); ++t) {
      const auto [least, most] = std::ranges::minmax(std::span(ranks_).subspan(t * tile, tile));
      tiles_[t] = {least, most};
    }
  }

  /// (32)
  const std::int32_t* of_tile(std::size_t t) const { return ranks_.data() + t * tile; }

  /// Whether somebody who sees the first `seen` active tokens sees any of the tile, or all of it.
  bool any(std::size_t t, std::int32_t seen) const { return tiles_[t].least < seen; }
  bool all(std::size_t t, std::int32_t seen) const { return tiles_[t].most < seen; }

  /// Whether the tile's tokens follow each other.
  bool in_order(std::size_t t) const {
    return tiles_[t].most - tiles_[t].least == static_cast<std::int32_t>(tile) - 1 && std::is_sorted(of_tile(t), of_tile(t) + tile);
  }

  std::size_t bytes() const { return ranks_.capacity() * sizeof(std::int32_t) + tiles_.capacity() * sizeof(range); }

 private:
  struct range {
    std::int32_t least, most;
  };
  std::vector<std::int32_t> ranks_;  // (slots)
  std::vector<range> tiles_;
};

class attention_layer {
 public:
  attention_layer(isa path, int threads) : path_(path), threads_(threads) {}

  std::size_t bytes() const { return states_.bytes() + local_.bytes() + ranks_.bytes() + seen_.capacity() * sizeof(std::int32_t); }

  /// See tensor_backend's `attend`.
  void attend(rows_view<const float> q, const packed_kv& kv, const attention_rows& what, rows_view<float> out,
              const attention_probe& probe) {
    ranks_.set(what.slots, kv.blocks());
    seen_.clear();
    for (const position row : what.rows)
      seen_.push_back(static_cast<std::int32_t>(std::ranges::upper_bound(what.active, row) - what.active.begin()));
    for (std::size_t i = 0; i < probe.queries * what.shape.heads; ++i)
      std::fill_n(probe.data + i * probe.stride, what.active.size(), kernels::no_score);

    const call c(*this, q, kv, what, probe);
    const std::size_t blocks = (q.rows + c.queries - 1) / c.queries, tasks = blocks * what.shape.kv_heads;
    // A query alone must keep all threads busy: its keys are cut into segments, the same ones for any number of threads.
    const std::size_t segment = q.rows <= few_rows ? segment_blocks : std::max<std::size_t>(1, kv.blocks());
    const std::size_t segments = std::max<std::size_t>(1, (kv.blocks() + segment - 1) / segment);

    const auto threads = static_cast<std::size_t>(threads_);
    float* states = states_.take((segments == 1 ? threads : tasks * segments) * c.state_floats);
    float* local = local_.take(threads * c.local_floats);
    const auto rows_of = [&](std::size_t task) {
      const std::size_t first = task / what.shape.kv_heads * c.queries;
      return query_rows{first, std::min(c.queries, q.rows - first), task % what.shape.kv_heads};
    };
    const std::size_t numbers = q.rows * q.columns;  // each meets a number of every active token's key and value
    detail::for_tasks_in_turn(
        detail::threads_for(threads_, numbers * what.active.size() / 32), tasks * segments, [&](std::size_t task, std::size_t thread) {
          const std::size_t of = task / segments, part = task % segments;
          float* state = states + (segments == 1 ? thread : task) * c.state_floats;
          c.run(rows_of(of), part * segment, std::min(kv.blocks(), (part + 1) * segment), state, local + thread * c.local_floats);
          if (segments == 1) c.finish(rows_of(of), state, 1, out);
        });
    if (segments > 1)
      detail::for_tasks(detail::threads_for(threads_, numbers * segments / 4), tasks, [&](std::size_t task, std::size_t) {
        c.finish(rows_of(task), states + task * segments * c.state_floats, segments, out);
      });
  }

 private:
  static constexpr std::size_t few_rows = 2;          // of q: too few tasks for many threads
  static constexpr std::size_t segment_blocks = 4;    // of keys
  static constexpr std::size_t most_strip = 32;       // rows, of any kernel
  static constexpr std::size_t strips_together = 16;  // that meet a block of keys while it is in the cache

  /// Some rows of q, for one key/value head.
  struct query_rows {
    std::size_t first;
    std::size_t count;
    std::size_t kv_head;
  };

  /// What all tasks of one call share, and where in a task's memory things are.
  struct call {
    const kernels::product_kernel& product;
    const kernels::attention_kernel& kernel;
    const key_ranks& ranks;
    const std::int32_t* seen;
    rows_view<const float> q;
    const packed_kv& kv;
    attention_shape shape;
    std::size_t active;    // tokens
    std::size_t unprobed;  // rows of q
    attention_probe probe;

    std::size_t group;           // query heads that share a key/value head
    std::size_t queries;         // rows of q in a task, at most
    std::size_t tile_floats;     // of a strip
    std::size_t query_floats;    // of a packed strip of queries
    std::size_t strip_state;     // floats: sums (value tiles, strip, 32), largest (strip), mass (strip, 16)
    std::size_t scratch_floats;  // of one strip that meets one block
    bool widens;                 // a block, once for all strips that meet it
    std::size_t state_floats;
    std::size_t local_floats;

    call(const attention_layer& layer, rows_view<const float> q_, const packed_kv& kv_, const attention_rows& what,
         const attention_probe& probe_)
        : product(kernels::product_kernel_for(layer.path_, kv_.type())),
          kernel(kernels::attention_kernel_for(layer.path_)),
          ranks(layer.ranks_),
          seen(layer.seen_.data()),
          q(q_),
          kv(kv_),
          shape(what.shape),
          active(what.active.size()),
          unprobed(q_.rows - probe_.queries),
          probe(probe_),
          group(shape.heads / shape.kv_heads),
          queries(std::clamp<std::size_t>(strips_together * product.strip / group, 1, std::max<std::size_t>(1, q.rows))),
          tile_floats(product.padded(product.strip) * kernels::tile_outputs),
          query_floats(packed_floats(kv.key_depth())),
          strip_state(kv.value_tiles() * tile_floats + detail::whole_lines(product.strip) + product.strip * kernels::mass_lanes),
          scratch_floats(packed_kv::block_tiles * tile_floats + product.strip * packed_kv::block_slots +
                         packed_floats(packed_kv::block_slots) + detail::whole_lines(product.strip * shape.head_dim)),
          widens(product.widen && strips(queries) > 1),
          state_floats(strips(queries) * strip_state),
          local_floats(strips(queries) * query_floats + scratch_floats + (widens ? wide_keys() + wide_values() : 0)) {}

    std::size_t strips(std::size_t rows) const { return (rows * group + product.strip - 1) / product.strip; }
    std::size_t packed_floats(std::size_t depth) const {
      return detail::whole_lines(product.padded(product.strip) * depth * product.element / sizeof(float)) + 16;
    }

    std::size_t wide_keys() const { return packed_kv::block_slots * kv.key_depth(); }
    std::size_t wide_values() const { return packed_kv::block_slots * kv.value_tiles() * kernels::tile_outputs; }

    /// Keys and values of one head, in one block: as they are stored, or widened.
    struct head_block {
      const packed_kv* kv;
      std::size_t block;
      std::size_t head;
      const float *keys, *values;  // null: as they are stored

      const std::byte* key_panel(std::size_t panel) const {
        if (!keys) return kv->key_panel(block, head, panel);
        return reinterpret_cast<const std::byte*>(keys + panel * kernels::panel_outputs * kv->key_depth());
      }
      const std::byte* value_panel(std::size_t panel, std::size_t first) const {
        if (!values) return kv->value_panel(block, head, panel, first);
        return reinterpret_cast<const std::byte*>(values + (panel * packed_kv::block_slots + first) * kernels::panel_outputs);
      }
      bool widened() const { return keys; }
      bool in_f32() const { return widened() || kv->type() == dtype::f32; }
    };

    /// Tiles begin to end - 1 of the block are those that somebody sees who sees the first `seen_by` active tokens.
    std::pair<std::size_t, std::size_t> tiles_seen(std::size_t block, std::int32_t seen_by) const {
      std::size_t begin = block * packed_kv::block_tiles, end = begin + packed_kv::block_tiles;
      while (begin < end && !ranks.any(begin, seen_by)) ++begin;
      while (begin < end && !ranks.any(end - 1, seen_by)) --end;
      return {begin, end};
    }

    /// The tiles of the block that somebody sees who sees the first `seen_by` active tokens, widened into `to`.
    head_block widened(std::size_t block, std::size_t head, std::int32_t seen_by, float* to) const {
      float* const values = to + wide_keys();
      const auto [begin, end] = tiles_seen(block, seen_by);
      for (std::size_t p = 2 * begin; p < 2 * end; ++p) {
        const std::size_t panel = p % (2 * packed_kv::block_tiles);
        product.widen(kv.key_panel(block, head, panel), kv.key_depth(), to + panel * kernels::panel_outputs * kv.key_depth());
      }
      const std::size_t slot = begin % packed_kv::block_tiles * kernels::tile_outputs, slots = (end - begin) * kernels::tile_outputs;
      for (std::size_t p = 0; p < 2 * kv.value_tiles(); ++p)
        product.widen(kv.value_panel(block, head, p, slot), slots, values + (p * packed_kv::block_slots + slot) * kernels::panel_outputs);
      return {&kv, block, head, to, values};
    }

    struct strip_state_view {
      float* sums;
      float* largest;
      float* mass;
    };
    strip_state_view state_of(float* state, std::size_t strip) const {
      float* sums = state + strip * strip_state;
      float* largest = sums + kv.value_tiles() * tile_floats;
      return {sums, largest, largest + detail::whole_lines(product.strip)};
    }

    /// The rows meet the keys of blocks first to last - 1, and leave what they found in `state`.
    void run(const query_rows& rows, std::size_t first, std::size_t last, float* state, float* local) const {
      float* const packed = local;
      float* const scratch = local + strips(queries) * query_floats;
      const std::size_t stack = rows.count * group, count = strips(rows.count);
      product.enter();
      for (std::size_t s = 0; s < count; ++s) {
        const std::size_t from = s * product.strip, in_strip = std::min(product.strip, stack - from);
        pack_queries(rows, from, in_strip, packed + s * query_floats, scratch);
        const auto [sums, largest, mass] = state_of(state, s);
        std::fill_n(sums, kv.value_tiles() * tile_floats, 0.0f);
        std::fill_n(largest, product.strip, kernels::no_score);
        std::fill_n(mass, product.strip * kernels::mass_lanes, 0.0f);
      }
      for (std::size_t block = first; block < last; ++block) {
        head_block stored{&kv, block, rows.kv_head, nullptr, nullptr};
        if (widens && count > 1) stored = widened(block, rows.kv_head, seen[rows.first + rows.count - 1], scratch + scratch_floats);
        for (std::size_t s = 0; s < count; ++s) {
          const std::size_t from = s * product.strip;
          meet(rows, from, std::min(product.strip, stack - from), stored, packed + s * query_floats, state_of(state, s), scratch);
        }
      }
      product.leave();
    }

    /// Rows `from` on of the stack (rows, group) of queries, times 1 / sqrt(head_dim).
    void pack_queries(const query_rows& rows, std::size_t from, std::size_t count, float* packed, float* scratch) const {
      const std::size_t d = shape.head_dim;
      const float by = 1.0f / std::sqrt(static_cast<float>(d));
      for (std::size_t i = 0; i < count; ++i) {
        const float* row = q.row(rows.first + (from + i) / group) + (rows.kv_head * group + (from + i) % group) * d;
        for (std::size_t e = 0; e < d; ++e) scratch[i * d + e] = row[e] * by;
      }
      product.pack(scratch, d, count, d, kv.key_depth(), reinterpret_cast<std::byte*>(packed));
    }

    /// One strip meets one block.
    void meet(const query_rows& rows, std::size_t from, std::size_t count, const head_block& stored, const float* packed,
              const strip_state_view& state, float* scratch) const {
      constexpr std::size_t tiles = packed_kv::block_tiles;
      const std::int32_t least = seen[rows.first + from / group], most = seen[rows.first + (from + count - 1) / group];
      const auto [begin, end] = tiles_seen(stored.block, most);
      if (begin == end) return;
      const auto multiply = stored.widened() ? product.multiply_wide : product.multiply;

      float* const scores = scratch;
      float* const weights = scores + tiles * tile_floats;
      float* const packed_weights = weights + product.strip * packed_kv::block_slots;
      const auto* strip = reinterpret_cast<const std::byte*>(packed);
      bool all = true;
      for (std::size_t t = begin; t < end; ++t) {
        const std::size_t panel = 2 * (t % tiles);
        multiply(strip, count, stored.key_panel(panel), stored.key_panel(panel + 1), kv.key_depth(), scores + (t - begin) * tile_floats,
                 {false, kernels::no_prefetch(strip)});
        all = all && ranks.all(t, least);
      }
      std::int32_t row_seen[most_strip] = {};
      for (std::size_t i = 0; i < count; ++i) row_seen[i] = seen[rows.first + (from + i) / group];
      float fade[most_strip];
      kernel.soften(scores, tile_floats, end - begin, count, all ? nullptr : ranks.of_tile(begin), row_seen, state.largest, state.mass,
                    fade, weights, packed_kv::block_slots);
      if (rows.first + (from + count - 1) / group >= unprobed) note(rows, from, count, begin, end, scores);

      const std::size_t depth = (end - begin) * kernels::tile_outputs, slot = begin % tiles * kernels::tile_outputs;
      if (std::any_of(fade, fade + count, [](float f) { return f != 1.0f; }))
        kernel.scale(state.sums, tile_floats, kv.value_tiles(), count, fade);
      static_assert(kernels::unpacked_stride == packed_kv::block_slots);
      const bool unpacked = stored.in_f32() && product.multiply_unpacked;
      if (!unpacked) product.pack(weights, packed_kv::block_slots, count, depth, depth, reinterpret_cast<std::byte*>(packed_weights));
      const auto* packed_rows = reinterpret_cast<const std::byte*>(packed_weights);
      for (std::size_t t = 0; t < kv.value_tiles(); ++t) {
        const std::byte *one = stored.value_panel(2 * t, slot), *other = stored.value_panel(2 * t + 1, slot);
        float* const sums = state.sums + t * tile_floats;
        if (unpacked)
          product.multiply_unpacked(weights, count, one, other, depth, sums, true);
        else
          multiply(packed_rows, count, one, other, depth, sums, {true, kernels::no_prefetch(packed_rows)});
      }
    }

    float* probe_row(std::size_t query, std::size_t head) const {
      return probe.data + ((query - unprobed) * shape.heads + head) * probe.stride;
    }

    /// Scores of probed rows, to become probabilities when the row is finished.
    void note(const query_rows& rows, std::size_t from, std::size_t count, std::size_t begin, std::size_t end, const float* scores) const {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t query = rows.first + (from + i) / group;
        if (query < unprobed) continue;
        float* to = probe_row(query, rows.kv_head * group + (from + i) % group);
        for (std::size_t t = begin; t < end; ++t) {
          const float* row = scores + (t - begin) * tile_floats + i * kernels::tile_outputs;
          const std::int32_t* rank = ranks.of_tile(t);
          if (ranks.all(t, seen[query]) && ranks.in_order(t)) {
            std::copy_n(row, kernels::tile_outputs, to + *rank);
          } else {
            for (std::size_t k = 0; k < kernels::tile_outputs; ++k)
              if (rank[k] < seen[query]) to[rank[k]] = row[k];
          }
        }
      }
    }

    /// Joins what the segments' states hold, in their order, and writes the rows.
    void finish(const query_rows& rows, float* states, std::size_t segments, rows_view<float> out) const {
      const std::size_t stack = rows.count * group;
      for (std::size_t s = 0; s < strips(rows.count); ++s) {
        const std::size_t from = s * product.strip, count = std::min(product.strip, stack - from);
        const strip_state_view state = state_of(states, s);
        for (std::size_t part = 1; part < segments; ++part) join(state, state_of(states + part * state_floats, s), count);
        float by[most_strip];
        for (std::size_t i = 0; i < count; ++i) {
          float mass = 0;
          for (std::size_t lane = 0; lane < kernels::mass_lanes; ++lane) mass += state.mass[i * kernels::mass_lanes + lane];
          by[i] = 1.0f / mass;
        }
        kernel.scale(state.sums, tile_floats, kv.value_tiles(), count, by);
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t query = rows.first + (from + i) / group, head = rows.kv_head * group + (from + i) % group, d = shape.head_dim;
          for (std::size_t e = 0; e < d; e += kernels::tile_outputs)
            std::copy_n(state.sums + e / kernels::tile_outputs * tile_floats + i * kernels::tile_outputs,
                        std::min(kernels::tile_outputs, d - e), out.row(query) + head * d + e);
          if (query >= unprobed) kernel.finish(probe_row(query, head), active, state.largest[i], by[i]);
        }
      }
    }

    void join(const strip_state_view& to, const strip_state_view& from, std::size_t count) const {
      float keep[most_strip], take[most_strip];
      for (std::size_t i = 0; i < count; ++i) {
        const float now = std::max(to.largest[i], from.largest[i]), shift = now == kernels::no_score ? 0.0f : now;
        keep[i] = std::exp(to.largest[i] - shift);
        take[i] = std::exp(from.largest[i] - shift);
        to.largest[i] = now;
        for (std::size_t lane = i * kernels::mass_lanes; lane < (i + 1) * kernels::mass_lanes; ++lane)
          to.mass[lane] = to.mass[lane] * keep[i] + from.mass[lane] * take[i];
      }
      kernel.scale(to.sums, tile_floats, kv.value_tiles(), count, keep);
      kernel.scale(from.sums, tile_floats, kv.value_tiles(), count, take);
      for (std::size_t t = 0; t < kv.value_tiles(); ++t)
        simd::add(from.sums + t * tile_floats, count * kernels::tile_outputs, to.sums + t * tile_floats);
    }
  };

  isa path_;
  int threads_;
  key_ranks ranks_;
  std::vector<std::int32_t> seen_;  // (rows): active tokens that each may look at
  detail::workspace states_;
  detail::workspace local_;
};

}  // namespace LAZYPRUNE_COMPILED_ISA
}  // namespace v0
}  // namespace lazyprune
