// SPDX-License-Identifier: MIT
// How attention is cut into tasks, and the layout of a task's memory.
#pragma once

#include <algorithm>
#include <cassert>

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>
#include <lazyprune/backend/cpu/kernels/kernels.hpp>
#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>
#include <lazyprune/backend/cpu/packed_kv.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>
#include <lazyprune/backend/cpu/tuning.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune {
inline namespace v0 {

/// A range of rows of q, for one key/value head.
struct query_rows {
  std::size_t first;
  std::size_t count;
  std::size_t kv_head;
};

/// A task is a range of rows for one key/value head. A group of query heads shares this head, so a task has a stack of (rows, group)
/// queries. The stack is cut into strips. The last strip may be shorter.
class attention_layout {
 public:
  static constexpr std::size_t most_strip = 32;  // queries in a strip of any kernel, at most

  attention_layout(const kernels::kernel_set& set, const attention_shape& shape, const packed_kv& kv, std::size_t rows,
                   const attention_tuning& tuning = {})
      : tile_type_(set.tiles_of(kv.type())),
        product_(&set.product(tile_type_)),
        shape_(shape),
        rows_(rows),
        strip_(product_->strip),
        group_(shape.heads / shape.kv_heads),
        task_rows_(std::clamp<std::size_t>(tuning.strips * strip_ / group_, 1, std::max<std::size_t>(1, rows))),
        tile_floats_(product_->padded(strip_) * kernels::tile_outputs),
        value_floats_(kv.value_tiles() * tile_floats_),
        query_floats_(packed_floats(kv.key_depth())),
        weight_floats_(packed_floats(packed_kv::block_slots)),
        block_keys_(packed_kv::block_slots * kv.key_depth()),
        block_values_(packed_kv::block_slots * kv.value_tiles() * kernels::tile_outputs),
        converts_(strips(task_rows_) > 1 && (kv.needs_unpacking() || product_->widen)),
        converted_size_(kv.needs_unpacking() ? size_of(tile_type_)
                        : converts_          ? sizeof(float)
                                             : 0),
        value_slots_(kv.needs_unpacking() ? slots_of(tuning.unpacked_bytes) : packed_kv::block_slots) {
    assert(shape.heads % shape.kv_heads == 0);
    assert(!kv.needs_unpacking() || !product_->widen);
  }

  dtype tile_type() const { return tile_type_; }  // f32 or bf16, of the tiles that products multiply
  const kernels::product_kernel& product() const { return *product_; }
  std::size_t group() const { return group_; }              // query heads that share a key/value head
  std::size_t tile_floats() const { return tile_floats_; }  // floats that a strip's sums of 32 outputs take

  /// Returns whether a task of several strips unpacks a block, or widens it to float, once for all of them.
  bool converts() const { return converts_; }
  std::size_t converted_size() const { return converted_size_; }  // bytes of a converted number; 0: nothing is converted
  /// How many slots of a tile of values a product takes, at most. If a block is not converted as a whole, so many slots stay in L1 while
  /// they are unpacked and multiplied.
  std::size_t value_slots() const { return value_slots_; }

  std::size_t tasks() const { return (rows_ + task_rows_ - 1) / task_rows_ * shape_.kv_heads; }
  query_rows task(std::size_t i) const {
    const std::size_t first = i / shape_.kv_heads * task_rows_;
    return {first, std::min(task_rows_, rows_ - first), i % shape_.kv_heads};
  }

  std::size_t strips(std::size_t rows) const { return (rows * group_ + strip_ - 1) / strip_; }

  /// A strip: the queries `from` to `from + count - 1` of the stack.
  struct strip {
    std::size_t from, count;
  };
  strip strip_of(const query_rows& rows, std::size_t s) const { return {s * strip_, std::min(strip_, rows.count * group_ - s * strip_)}; }

  /// `row_of` returns the row of q, and `head_of` the query head, of the query with this number in the stack.
  std::size_t row_of(const query_rows& rows, std::size_t number) const { return rows.first + number / group_; }
  std::size_t head_of(const query_rows& rows, std::size_t number) const { return rows.kv_head * group_ + number % group_; }

  /// A task's results so far, for one strip: the weighted sums of values (value tiles, strip, 32), the largest scores (strip), and the mass
  /// (strip, 16). attention_kernel.hpp defines the mass.
  struct strip_state {
    float* sums;
    float* largest;
    float* mass;
  };
  std::size_t state_floats() const { return strips(task_rows_) * strip_state_floats(); }
  strip_state state_of(float* state, std::size_t s) const {
    float* const sums = state + s * strip_state_floats();
    float* const largest = sums + value_floats_;
    return {sums, largest, largest + detail::whole_lines(strip_)};
  }
  std::size_t value_floats() const { return value_floats_; }  // floats that a strip's sums of values take

  /// A thread's memory while it works on a task.
  struct scratch {
    float* scores;          // (tiles, strip, 32): the scores of one strip and one block, or of two pieces of blocks
    float* weights;         // (strip, block_slots), float or bf16
    float* packed_weights;  // `weights`, packed
    float* scaled;          // (strip, head_dim): queries, before they are packed
    std::byte* keys;        // a block's converted keys
    std::byte* values;      // a block's converted values
  };
  std::size_t local_floats() const { return strips(task_rows_) * query_floats_ + scratch_floats() + converted_floats(); }
  float* packed_queries(float* local, std::size_t s) const { return local + s * query_floats_; }
  scratch scratch_of(float* local) const {
    float* const scores = local + strips(task_rows_) * query_floats_;
    float* const weights = scores + score_floats();
    float* const packed_weights = weights + strip_ * packed_kv::block_slots;
    auto* const keys = reinterpret_cast<std::byte*>(scores + scratch_floats());
    return {scores, weights, packed_weights, packed_weights + weight_floats_, keys, keys + block_keys_ * converted_size_};
  }

 private:
  std::size_t packed_floats(std::size_t depth) const {
    return detail::whole_lines(product_->padded(strip_) * depth * product_->unit_bytes / kernels::pack_inputs / sizeof(float));
  }
  std::size_t strip_state_floats() const { return value_floats_ + detail::whole_lines(strip_) + strip_ * kernels::mass_lanes; }
  std::size_t converted_floats() const { return (block_keys_ + block_values_) * converted_size_ / sizeof(float); }
  /// Returns how many slots of a tile of values take this many bytes after they are converted, a multiple of 32.
  std::size_t slots_of(std::size_t bytes) const {
    return std::max<std::size_t>(1, bytes / (kernels::pack_inputs * kernels::tile_outputs * converted_size_)) * kernels::pack_inputs;
  }
  std::size_t score_floats() const { return packed_kv::block_tiles * tile_floats_; }
  std::size_t scratch_floats() const {
    return score_floats() + strip_ * packed_kv::block_slots + weight_floats_ + detail::whole_lines(strip_ * shape_.head_dim);
  }

  dtype tile_type_;
  const kernels::product_kernel* product_;
  attention_shape shape_;
  std::size_t rows_;   // rows of q
  std::size_t strip_;  // queries in a strip, at most
  std::size_t group_;
  std::size_t task_rows_;  // rows of a task, at most
  std::size_t tile_floats_;
  std::size_t value_floats_;
  std::size_t query_floats_;               // floats of a packed strip of queries
  std::size_t weight_floats_;              // floats of a packed strip of attention weights
  std::size_t block_keys_, block_values_;  // numbers of a block's keys and values, padding included
  bool converts_;
  std::size_t converted_size_;
  std::size_t value_slots_;
};

}  // namespace v0
}  // namespace lazyprune
