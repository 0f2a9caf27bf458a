// SPDX-License-Identifier: MIT
// Attention without the full matrix of scores (FlashAttention, arXiv 2205.14135). Strips of queries are multiplied by blocks of keys, and a
// running softmax joins the results. The queries of all heads that share a key/value head are in the same strips. Keys are read in the
// order of their slots, whichever tokens the slots hold. So a full prefill, a subset of active tokens and revived rows need no code of
// their own.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include <lazyprune/backend/cpu/attention_layout.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>
#include <lazyprune/backend/cpu/key_ranks.hpp>
#include <lazyprune/backend/cpu/packed_rows.hpp>
#include <lazyprune/backend/cpu/tuning.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The keys and values of one head in one block, as tiles that products multiply. A cache may need that its tiles are unpacked. If
/// `convert` has not unpacked all of them, a tile is unpacked each time it is read.
class head_block {
 public:
  /// Converted tiles go to the scratch memory.
  head_block(const packed_kv& kv, std::size_t block, std::size_t head, const attention_layout& layout,
             const attention_layout::scratch& scratch)
      : kv_(&kv), block_(block), head_(head), layout_(&layout), keys_(scratch.keys), values_(scratch.values) {}

  /// Unpacks or widens the tiles `begin` to `end - 1`. Tiles are counted from the start of the cache. These tiles must be in this block.
  void convert(std::size_t begin, std::size_t end) {
    const std::size_t first = begin % packed_kv::block_tiles, slot = first * kernels::tile_outputs;
    for (std::size_t tile = first; tile < first + end - begin; ++tile) convert_keys(tile, keys_ + key_place(tile));
    for (std::size_t tile = 0; tile < kv_->value_tiles(); ++tile)
      convert_values(tile, slot, (end - begin) * kernels::tile_outputs, values_ + value_place(tile, slot));
    converted_ = true;
  }

  /// Returns whether key_tile(i + 1) follows key_tile(i) in memory.
  bool contiguous() const { return converted_ || !kv_->needs_unpacking(); }
  /// Returns a tile of keys. It is valid until the next call.
  const std::byte* key_tile(std::size_t tile) const {
    if (converted_) return keys_ + key_place(tile);
    if (!kv_->needs_unpacking()) return kv_->key_tile(block_, head_, tile);
    convert_keys(tile, keys_);
    return keys_;
  }
  /// Returns `slots` slots of a tile of values, from slot `first` on. They are valid until the next call.
  const std::byte* value_tile(std::size_t tile, std::size_t first, std::size_t slots) const {
    if (converted_) return values_ + value_place(tile, first);
    if (!kv_->needs_unpacking()) return kv_->value_tile(block_, head_, tile, first);
    convert_values(tile, first, slots, values_);
    return values_;
  }
  std::size_t block() const { return block_; }
  bool widened() const { return converted_ && !kv_->needs_unpacking(); }
  bool in_f32() const { return widened() || layout_->tile_type() == dtype::f32; }

 private:
  void convert_keys(std::size_t tile, std::byte* to) const {
    const std::byte* const from = kv_->key_tile(block_, head_, tile);
    if (kv_->needs_unpacking())
      kv_->unpack_keys(layout_->product(), from, to);
    else
      layout_->product().widen(from, kv_->key_depth(), reinterpret_cast<float*>(to));
  }
  void convert_values(std::size_t tile, std::size_t first, std::size_t slots, std::byte* to) const {
    const std::byte* const from = kv_->value_tile(block_, head_, tile, first);
    if (kv_->needs_unpacking())
      kv_->unpack_values(layout_->product(), from, slots, to);
    else
      layout_->product().widen(from, slots, reinterpret_cast<float*>(to));
  }

  // The place of a tile among a block's converted tiles, in bytes.
  std::size_t key_place(std::size_t tile) const { return tile * kernels::tile_outputs * kv_->key_depth() * layout_->converted_size(); }
  std::size_t value_place(std::size_t tile, std::size_t first) const {
    return (tile * packed_kv::block_slots + first) * kernels::tile_outputs * layout_->converted_size();
  }

  const packed_kv* kv_;
  std::size_t block_;
  std::size_t head_;
  const attention_layout* layout_;
  std::byte *keys_, *values_;
  bool converted_ = false;
};

inline constexpr std::uint32_t not_probed = static_cast<std::uint32_t>(-1);

/// One call of `attend`: the data that all its tasks share.
class attention_call {
 public:
  using rank_range = kernels::rank_range;

  attention_call(const kernels::kernel_set& set, const key_ranks& ranks, const rank_range* seen, rows_view<const float> q,
                 const packed_kv& kv, const attention_rows& what, const attention_probe& probe, std::span<const std::uint32_t> probe_place,
                 const attention_tuning& tuning)
      : layout(set, what.shape, kv, q.rows, tuning),
        product_(layout.product()),
        kernel_(set.attention(layout.tile_type())),
        elementwise_(set.elementwise),
        ranks_(ranks),
        seen_(seen),
        q_(q),
        kv_(kv),
        shape_(what.shape),
        cap_(static_cast<float>(what.variant.soft_cap)),
        query_scale_(query_scale(what)),
        active_(what.active.size()),
        unprobed_(q.rows - probe.queries),
        probe_(probe),
        probe_place_(probe_place) {
    assert(packed_kv::block_tiles % (kernel_.scores_ahead ? 2 * kernel_.most_tiles : kernel_.most_tiles) == 0);
  }

  const attention_layout layout;

  /// Computes the attention of the rows to the keys of the blocks `first` to `last - 1`, and leaves the results in `state`.
  void run(const query_rows& rows, std::size_t first, std::size_t last, float* state, float* local) const {
    const attention_layout::scratch scratch = layout.scratch_of(local);
    const std::size_t strips = layout.strips(rows.count);
    product_.enter();
    for (std::size_t s = 0; s < strips; ++s) {
      pack_queries(rows, layout.strip_of(rows, s), scratch.scaled, layout.packed_queries(local, s));
      clear(layout.state_of(state, s));
    }
    const rank_range together = seen_by(rows.first, rows.first + rows.count - 1);
    for (std::size_t b = first; b < last; ++b) {
      head_block block(kv_, b, rows.kv_head, layout, scratch);
      if (layout.converts() && strips > 1) {
        const auto [begin, end] = tiles_seen(b, together);
        block.convert(begin, end);
      }
      attend_block(rows, block, local, state, scratch);
    }
    product_.leave();
  }

  /// Joins the states of the segments, in their order, and writes the output rows and the probe.
  void write_rows(const query_rows& rows, float* states, std::size_t segments, rows_view<float> out) const {
    for (std::size_t s = 0; s < layout.strips(rows.count); ++s) {
      const auto [from, count] = layout.strip_of(rows, s);
      const attention_layout::strip_state state = layout.state_of(states, s);
      for (std::size_t i = 1; i < segments; ++i) join(state, layout.state_of(states + i * layout.state_floats(), s), count);
      float by[attention_layout::most_strip];
      for (std::size_t i = 0; i < count; ++i) {
        float mass = 0;
        for (std::size_t lane = 0; lane < kernels::mass_lanes; ++lane) mass += state.mass[i * kernels::mass_lanes + lane];
        by[i] = 1.0f / mass;
      }
      kernel_.scale(state.sums, layout.tile_floats(), kv_.value_tiles(), count, by);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t row = layout.row_of(rows, from + i), head = layout.head_of(rows, from + i), d = shape_.head_dim;
        for (std::size_t e = 0; e < d; e += kernels::tile_outputs)
          std::copy_n(state.sums + e / kernels::tile_outputs * layout.tile_floats() + i * kernels::tile_outputs,
                      std::min(kernels::tile_outputs, d - e), out.row(row) + head * d + e);
        if (float* const probe = probe_row(row, head)) write_probe(probe, seen_[row], state.largest[i], by[i]);
      }
    }
  }

 private:
  using strip = attention_layout::strip;
  using strip_state = attention_layout::strip_state;

  struct tile_range {
    std::size_t begin, end;
    std::size_t count() const { return end - begin; }
  };

  /// Tiles of a block, and a strip that sees some of their keys.
  struct piece {
    std::size_t strip;
    tile_range tiles;
  };

  /// Returns the factor that scales the queries. The product of a scaled query and a key is the score or, with a soft cap, score / cap.
  static float query_scale(const attention_rows& what) {
    const attention_variant& v = what.variant;
    const float scale = v.scale != 0 ? static_cast<float>(v.scale) : 1.0f / std::sqrt(static_cast<float>(what.shape.head_dim));
    return v.soft_cap > 0 ? scale / static_cast<float>(v.soft_cap) : scale;
  }

  /// Returns the range of the tokens that at least one of the rows `first` to `last` sees. A later row's range begins and ends no earlier
  /// than the range of the row before, so only row `first` and row `last` matter.
  rank_range seen_by(std::size_t first, std::size_t last) const { return {seen_[first].first, seen_[last].end}; }

  /// Returns the block's tiles from the first to the last tile that may have an active token in `seen`.
  tile_range tiles_seen(std::size_t block, const rank_range& seen) const {
    std::size_t begin = block * packed_kv::block_tiles, end = begin + packed_kv::block_tiles;
    while (begin < end && !ranks_.any(begin, seen)) ++begin;
    while (begin < end && !ranks_.any(end - 1, seen)) --end;
    return {begin, end};
  }

  void clear(const strip_state& state) const {
    std::fill_n(state.sums, layout.value_floats(), 0.0f);
    std::fill_n(state.largest, product_.strip, kernels::no_score);
    std::fill_n(state.mass, product_.strip * kernels::mass_lanes, 0.0f);
  }

  /// Scales and packs the strip's queries.
  void pack_queries(const query_rows& rows, const strip& of, float* scaled, float* packed) const {
    const std::size_t d = shape_.head_dim;
    for (std::size_t i = 0; i < of.count; ++i) {
      const float* row = q_.row(layout.row_of(rows, of.from + i)) + layout.head_of(rows, of.from + i) * d;
      for (std::size_t e = 0; e < d; ++e) scaled[i * d + e] = row[e] * query_scale_;
    }
    product_.pack(scaled, d, of.count, d, kv_.key_depth(), reinterpret_cast<std::byte*>(packed));
  }

  /// Returns the first piece of the block: in strip s from this tile on, or else in a later strip. If there is none, the strip of the
  /// result is the number of strips. Pieces end at multiples of most_tiles, so other rows do not change the order of a row's additions.
  piece piece_from(const query_rows& rows, std::size_t block, std::size_t s, std::size_t tile) const {
    const std::size_t strips = layout.strips(rows.count), most = kernel_.most_tiles;
    for (; s < strips; ++s, tile = 0) {
      const strip of = layout.strip_of(rows, s);
      const tile_range seen = tiles_seen(block, seen_by(layout.row_of(rows, of.from), layout.row_of(rows, of.from + of.count - 1)));
      const std::size_t begin = std::max(seen.begin, tile);
      if (begin < seen.end) return {s, {begin, std::min((begin / most + 1) * most, seen.end)}};
    }
    return {strips, {0, 0}};
  }

  /// Adds one block of keys and values to the states of all strips. If `soften` can compute scores, it computes those of the next piece.
  void attend_block(const query_rows& rows, const head_block& block, float* local, float* state,
                    const attention_layout::scratch& scratch) const {
    const std::size_t strips = layout.strips(rows.count);
    float *scores = scratch.scores, *later = scores + (kernel_.scores_ahead ? kernel_.most_tiles * layout.tile_floats() : 0);
    bool scored = false;
    piece now = piece_from(rows, block.block(), 0, 0);
    while (now.strip < strips) {
      const strip of = layout.strip_of(rows, now.strip);
      if (!scored) score(now.tiles, of.count, block, layout.packed_queries(local, now.strip), scores);
      const piece next = piece_from(rows, block.block(), now.strip, now.tiles.end);
      scored = kernel_.scores_ahead && block.contiguous() && next.strip < strips;
      kernels::score_task ahead{};
      if (scored)
        ahead = {reinterpret_cast<const std::byte*>(layout.packed_queries(local, next.strip)),
                 layout.strip_of(rows, next.strip).count,
                 block.key_tile(next.tiles.begin % packed_kv::block_tiles),
                 next.tiles.count(),
                 kv_.key_depth(),
                 later,
                 layout.tile_floats()};
      add_piece(rows, of, now.tiles, block, scores, scored ? &ahead : nullptr, layout.state_of(state, now.strip), scratch);
      now = next;
      std::swap(scores, later);
    }
  }

  /// Adds the keys and values of some tiles to the state of one strip. `scores` are the products of the strip's queries and these keys.
  void add_piece(const query_rows& rows, const strip& of, const tile_range& tiles, const head_block& block, float* scores,
                 const kernels::score_task* ahead, const strip_state& state, const attention_layout::scratch& scratch) const {
    rank_range seen[attention_layout::most_strip] = {};
    for (std::size_t i = 0; i < of.count; ++i) seen[i] = seen_[layout.row_of(rows, of.from + i)];
    const rank_range seen_by_all{seen[of.count - 1].first, seen[0].end};
    if (cap_ > 0) kernel_.soft_cap(scores, layout.tile_floats(), tiles.count(), of.count, cap_);

    bool all = true;  // whether every query sees every key of the tiles
    for (std::size_t t = tiles.begin; t < tiles.end; ++t) all = all && ranks_.all(t, seen_by_all);
    float fade[attention_layout::most_strip];
    kernel_.soften(scores, layout.tile_floats(), tiles.count(), of.count, all ? nullptr : ranks_.of_tile(tiles.begin), seen, state.largest,
                   state.mass, fade, place_of_weights(of.count, scratch), ahead);
    if (layout.row_of(rows, of.from + of.count - 1) >= unprobed_) note(rows, of, tiles, scores);
    if (std::any_of(fade, fade + of.count, [](float f) { return f != 1.0f; }))
      kernel_.scale(state.sums, layout.tile_floats(), kv_.value_tiles(), of.count, fade);
    weigh(tiles, of.count, block, scratch, state.sums);
  }

  /// Computes scores (tiles, count, 32) = queries times keys.
  void score(const tile_range& tiles, std::size_t count, const head_block& block, const float* queries, float* scores) const {
    const auto multiply = block.widened() ? product_.multiply_wide : product_.multiply;
    const auto* packed = reinterpret_cast<const std::byte*>(queries);
    for (std::size_t t = tiles.begin; t < tiles.end; ++t)
      multiply(packed, count, block.key_tile(t % packed_kv::block_tiles), kv_.key_depth(),
               scores + (t - tiles.begin) * layout.tile_floats(), {false, kernels::no_prefetch(packed), product_.ahead});
  }

  /// Whether `soften` writes the weights where products read them.
  bool softens_packed() const { return kernel_.weight_bytes == sizeof(std::uint16_t) && !product_.pack_rounded; }

  kernels::weight_rows place_of_weights(std::size_t count, const attention_layout::scratch& scratch) const {
    const std::size_t of_tile = kernels::tile_outputs * kernel_.weight_bytes;
    if (softens_packed()) return {reinterpret_cast<std::byte*>(scratch.packed_weights), of_tile, product_.padded(count) * of_tile};
    return {reinterpret_cast<std::byte*>(scratch.weights), packed_kv::block_slots * kernel_.weight_bytes, of_tile};
  }

  /// Packs the weights of `count` queries and `tiles` tiles of keys for a product.
  void pack_weights(std::size_t count, std::size_t tiles, const attention_layout::scratch& scratch) const {
    auto* const packed = reinterpret_cast<std::byte*>(scratch.packed_weights);
    const std::size_t depth = tiles * kernels::tile_outputs;
    if (kernel_.weight_bytes == sizeof(float)) {
      product_.pack(scratch.weights, packed_kv::block_slots, count, depth, depth, packed);
    } else if (product_.pack_rounded) {
      product_.pack_rounded(reinterpret_cast<const std::uint16_t*>(scratch.weights), packed_kv::block_slots, count, depth, packed);
    } else {  // padding rows repeat the last row
      const kernels::weight_rows rows = place_of_weights(count, scratch);
      for (std::size_t t = 0; t < tiles; ++t)
        for (std::size_t r = count; r < product_.padded(count); ++r)
          std::copy_n(packed + t * rows.tile_bytes + (count - 1) * rows.row_bytes, rows.row_bytes,
                      packed + t * rows.tile_bytes + r * rows.row_bytes);
    }
  }

  /// Computes sums += attention weights times values.
  void weigh(const tile_range& tiles, std::size_t count, const head_block& block, const attention_layout::scratch& scratch,
             float* sums) const {
    static_assert(kernels::unpacked_stride == packed_kv::block_slots);
    const std::size_t slot = tiles.begin % packed_kv::block_tiles * kernels::tile_outputs;
    const std::size_t depth = tiles.count() * kernels::tile_outputs;
    const bool unpacked = block.in_f32() && product_.multiply_unpacked;
    if (!unpacked) pack_weights(count, tiles.count(), scratch);
    const auto* const packed = reinterpret_cast<const std::byte*>(scratch.packed_weights);
    const auto multiply = block.widened() ? product_.multiply_wide : product_.multiply;
    for (std::size_t t = 0; t < kv_.value_tiles(); ++t, sums += layout.tile_floats()) {
      for (std::size_t done = 0, some = 0; done < depth; done += some) {
        some = block.contiguous() ? depth : std::min(depth - done, layout.value_slots());
        const std::byte* const tile = block.value_tile(t, slot + done, some);
        if (unpacked)
          product_.multiply_unpacked(scratch.weights + done, count, tile, some, sums, true);
        else
          multiply(packed + product_.padded(count) * product_.unit_bytes * done / kernels::pack_inputs, count, tile, some, sums,
                   {true, kernels::no_prefetch(packed), product_.ahead});
      }
    }
  }

  /// Returns where a row's probabilities in this head go, or null if nobody reads them.
  float* probe_row(std::size_t row, std::size_t head) const {
    if (row < unprobed_) return nullptr;
    if (probe_place_.empty()) return probe_.data + ((row - unprobed_) * shape_.heads + head) * probe_.stride;
    return probe_place_[head] == not_probed ? nullptr
                                            : probe_.data + (probe_place_[head] * probe_.queries + row - unprobed_) * probe_.stride;
  }

  /// Turns the scores that `note` wrote into probabilities, and writes 0 for the active tokens that the row does not see.
  void write_probe(float* row, const rank_range& seen, float largest, float by) const {
    std::fill_n(row, seen.first, 0.0f);
    kernel_.exponentiate(row + seen.first, static_cast<std::size_t>(seen.end - seen.first), largest, by);
    std::fill(row + seen.end, row + active_, 0.0f);
  }

  /// Writes the scores of probed rows to the probe.
  void note(const query_rows& rows, const strip& of, const tile_range& tiles, const float* scores) const {
    for (std::size_t i = 0; i < of.count; ++i) {
      const std::size_t row = layout.row_of(rows, of.from + i);
      float* const to = probe_row(row, layout.head_of(rows, of.from + i));
      if (!to) continue;
      for (std::size_t t = tiles.begin; t < tiles.end; ++t) {
        const float* tile = scores + (t - tiles.begin) * layout.tile_floats() + i * kernels::tile_outputs;
        const std::int32_t* rank = ranks_.of_tile(t);
        if (ranks_.all(t, seen_[row]) && ranks_.in_order(t)) {
          std::copy_n(tile, kernels::tile_outputs, to + *rank);
        } else {
          for (std::size_t k = 0; k < kernels::tile_outputs; ++k)
            if (seen_[row].first <= rank[k] && rank[k] < seen_[row].end) to[rank[k]] = tile[k];
        }
      }
    }
  }

  void join(const strip_state& to, const strip_state& from, std::size_t count) const {
    float keep[attention_layout::most_strip], take[attention_layout::most_strip];
    for (std::size_t i = 0; i < count; ++i) {
      const float now = std::max(to.largest[i], from.largest[i]), shift = now == kernels::no_score ? 0.0f : now;
      keep[i] = std::exp(to.largest[i] - shift);
      take[i] = std::exp(from.largest[i] - shift);
      to.largest[i] = now;
      for (std::size_t lane = i * kernels::mass_lanes; lane < (i + 1) * kernels::mass_lanes; ++lane)
        to.mass[lane] = std::fma(to.mass[lane], keep[i], from.mass[lane] * take[i]);
    }
    kernel_.scale(to.sums, layout.tile_floats(), kv_.value_tiles(), count, keep);
    kernel_.scale(from.sums, layout.tile_floats(), kv_.value_tiles(), count, take);
    for (std::size_t t = 0; t < kv_.value_tiles(); ++t)
      elementwise_.add(from.sums + t * layout.tile_floats(), count * kernels::tile_outputs, to.sums + t * layout.tile_floats());
  }

  const kernels::product_kernel& product_;
  const kernels::attention_kernel& kernel_;
  const kernels::elementwise_kernel& elementwise_;
  const key_ranks& ranks_;
  const rank_range* seen_;  // (rows)
  rows_view<const float> q_;
  const packed_kv& kv_;
  attention_shape shape_;
  float cap_;
  float query_scale_;
  std::size_t active_;    // the number of active tokens
  std::size_t unprobed_;  // the number of rows of q before the probed rows
  attention_probe probe_;
  std::span<const std::uint32_t> probe_place_;  // (heads): the place of a head in the probe, or not_probed; empty: all heads are probed
};

}  // namespace detail

class attention_layer {
 public:
  attention_layer(const kernels::kernel_set& set, int threads, const attention_tuning& tuning = {})
      : kernels_(&set), threads_(threads), tuning_(tuning) {}

  std::size_t bytes() const {
    return states_.bytes() + local_.bytes() + of_heads_.bytes() + ranks_.bytes() + ordered_.bytes() +
           places_.capacity() * sizeof(std::uint32_t) + seen_.capacity() * sizeof(kernels::rank_range);
  }

  /// See tensor_backend's `attend`.
  void attend(rows_view<const float> q, const packed_kv& cache, const attention_rows& what, packed_rows& out, std::size_t first_row,
              const attention_probe& probe) {
    if (what.rows.empty()) return;
    const rows_view<float> plain = out.plain().slice(first_row, q.rows);
    seen_.clear();
    for (const position row : what.rows) seen_.push_back(seen_by(row, what));
    const kernels::rank_range together{seen_.front().first, seen_.back().end};
    const bool copies = copying_pays(what);
    const packed_kv& kv = copies ? ordered(cache, what.slots, together) : cache;
    ranks_.set(copies ? places_ : what.slots, together);

    attention_probe each = probe;  // one row for each query and probed head
    probe_place_.clear();
    if (probe.queries > 0 && (probe.over_heads || !probe.probes.empty())) {
      const std::size_t active = what.active.size(), heads = probe.probes.empty() ? what.shape.heads : place_probes(what, probe);
      each = {of_heads_.take(probe.queries * heads * active), probe.queries, active};
    }
    const detail::attention_call call(*kernels_, ranks_, seen_.data(), q, kv, what, each, probe_place_, tuning_);
    const attention_layout& layout = call.layout;
    // Few queries give few tasks, so the keys are cut into segments to keep all threads busy. The number of threads does not change the
    // cuts, so results have the same bits for any number of threads.
    const std::size_t segment = what.all_rows().size() <= few_attended_rows ? segment_blocks : kv.blocks();
    const std::size_t first_segment = ranks_.first_block() / segment, segments = (ranks_.end_block() - 1) / segment + 1 - first_segment;

    const auto threads = static_cast<std::size_t>(threads_);
    float* states = states_.take((segments == 1 ? threads : layout.tasks() * segments) * layout.state_floats());
    float* local = local_.take(threads * layout.local_floats());
    const std::size_t numbers = q.rows * q.columns;  // of q, and also of out; each takes a multiplication for each active token
    const int team = detail::threads_for(threads_, numbers * static_cast<std::size_t>(together.end - together.first) / 32);
    const auto write = [&](std::size_t task, float* states_of_task) {
      const query_rows done = layout.task(task);
      call.write_rows(done, states_of_task, segments, plain);
      out.wrote(first_row + done.first, done.count, layout.group() * what.shape.head_dim);
    };
    detail::for_growing_tasks(team, layout.tasks() * segments, [&](std::size_t i, std::size_t thread) {
      const std::size_t task = i / segments, part = i % segments;
      float* state = states + (segments == 1 ? thread : i) * layout.state_floats();
      const std::size_t begin = (first_segment + part) * segment;
      call.run(layout.task(task), std::max(begin, ranks_.first_block()), std::min(begin + segment, ranks_.end_block()), state,
               local + thread * layout.local_floats());
      if (segments == 1) write(task, state);
    });
    if (segments > 1)
      detail::for_tasks(detail::threads_for(threads_, numbers * segments / 4), layout.tasks(),
                        [&](std::size_t task, std::size_t) { write(task, states + task * segments * layout.state_floats()); });
    if (probe.over_heads) reduce(each, what, probe);
    if (!probe.probes.empty()) reduce_probes(each, what, probe);
  }

 private:
  /// Gives each probed head a place in the order of the probes. Returns the number of probed heads.
  std::size_t place_probes(const attention_rows& what, const attention_probe& probe) {
    probe_place_.assign(what.shape.heads, detail::not_probed);
    std::uint32_t places = 0;
    for (const head_probe& p : probe.probes)
      if (probe_place_[p.head] == detail::not_probed) probe_place_[p.head] = places++;
    return places;
  }

  void reduce_probes(const attention_probe& each, const attention_rows& what, const attention_probe& probe) const {
    const std::size_t active = what.active.size();
    const int team = detail::threads_for(threads_, probe.queries * probe.probes.size() * active / 2);
    detail::for_tasks(team, probe.probes.size(), [&](std::size_t i, std::size_t) {
      const head_probe& p = probe.probes[i];
      reduce_queries(each.data + probe_place_[p.head] * probe.queries * each.stride, probe.queries, each.stride, p.over,
                     {probe.data + i * probe.stride, active});
    });
  }

  void reduce(const attention_probe& each, const attention_rows& what, const attention_probe& probe) const {
    const std::size_t heads = what.shape.heads, active = what.active.size(), whole = tuning_.reduced_tokens,
                      pieces = (active + whole - 1) / whole;
    const int team = detail::threads_for(threads_, probe.queries * heads * active / 2);
    detail::for_tasks(team, probe.queries * pieces, [&](std::size_t i, std::size_t) {
      const std::size_t query = i / pieces, first = i % pieces * whole, count = std::min(whole, active - first);
      const attention_view piece{each.data + query * heads * each.stride + first, heads, each.stride, what.active.subspan(first, count)};
      reduce_heads(piece, *probe.over_heads, {probe.data + query * probe.stride + first, count});
    });
  }

  /// Returns whether attention takes longer over the keys in the order of their slots than over a copy of them in the order of the tokens.
  /// A strip reads a tile of keys if one of its rows sees one of the tile's tokens. If slots have gaps, or revived tokens are in the last
  /// slots, a row reads many keys that it does not see. The result depends on the layer, not on the call, because the order of the keys
  /// changes the order of additions.
  bool copying_pays(const attention_rows& what) {
    const std::span<const position> rows = what.all_rows();
    const std::span<const std::uint32_t> slots = what.slots;
    if (rows.size() <= few_attended_rows) return false;
    if (std::ranges::adjacent_find(slots, [](std::uint32_t a, std::uint32_t b) { return b != a + 1; }) == slots.end()) return false;
    const auto readers = [&](std::int32_t first, std::int32_t last) {  // rows that see some of the tokens with the ranks first to last
      const auto index = [&](std::size_t p) { return std::ranges::lower_bound(rows, p) - rows.begin(); };
      const std::size_t window = what.variant.window, from = what.active[static_cast<std::size_t>(first)],
                        to = what.active[static_cast<std::size_t>(last)] + window;
      return window == 0 ? std::ssize(rows) - index(from) : std::max<std::ptrdiff_t>(0, index(to) - index(from));
    };
    const auto tokens = static_cast<std::int32_t>(slots.size());
    constexpr auto tile = static_cast<std::int32_t>(key_ranks::tile);
    std::ptrdiff_t saved = 0;  // pairs of a row and a tile
    ranks_.set(slots, {0, tokens});
    for (std::size_t t = ranks_.first_block() * packed_kv::block_tiles; t < ranks_.end_block() * packed_kv::block_tiles; ++t)
      if (const kernels::rank_range in_tile = ranks_.range_of(t); in_tile.first < in_tile.end)
        saved += readers(in_tile.first, in_tile.end - 1);
    for (std::int32_t first = 0; first < tokens; first += tile) saved -= readers(first, std::min(first + tile, tokens) - 1);
    const std::ptrdiff_t group = static_cast<std::ptrdiff_t>(what.shape.heads / what.shape.kv_heads);
    return saved * tile * group > copied_token_pairs * tokens;
  }

  /// Copies the keys and values of these tokens in their order. A block has the tokens whose ranks it would have if all active tokens were
  /// copied. `places_` gets the slots of the copies.
  const packed_kv& ordered(const packed_kv& kv, std::span<const std::uint32_t> slots, const kernels::rank_range& tokens) {
    const std::size_t first = static_cast<std::size_t>(tokens.first) / packed_kv::block_slots * packed_kv::block_slots;
    const auto end = static_cast<std::size_t>(tokens.end);
    if (!ordered_.like(kv)) ordered_ = packed_kv(kv.kv_heads(), kv.width() / kv.kv_heads(), kv.type());
    ordered_.copy(kv, slots.subspan(first, end - first), threads_);
    places_.resize(end);
    for (std::size_t i = first; i < end; ++i) places_[i] = static_cast<std::uint32_t>(i - first);
    return ordered_;
  }

  static kernels::rank_range seen_by(position row, const attention_rows& what) {
    const auto after = [&](position p) {
      return static_cast<std::int32_t>(std::ranges::upper_bound(what.active, p) - what.active.begin());
    };
    const std::size_t window = what.variant.window;
    return {window == 0 || row < window ? 0 : after(row - static_cast<position>(window)), after(row)};
  }

  const kernels::kernel_set* kernels_;
  int threads_;
  attention_tuning tuning_;
  packed_kv ordered_{0, 0};            // see `ordered`
  std::vector<std::uint32_t> places_;  // (active)
  key_ranks ranks_;
  std::vector<kernels::rank_range> seen_;  // (rows): the active tokens that each row sees
  detail::scratch_memory states_;
  detail::scratch_memory local_;
  detail::scratch_memory of_heads_;         // (queries, heads, active), or (probed heads, queries, active): probabilities to be reduced
  std::vector<std::uint32_t> probe_place_;  // see attention_call
};

}  // namespace v0
}  // namespace lazyprune
