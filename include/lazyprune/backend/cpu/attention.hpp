// SPDX-License-Identifier: MIT
// Attention without the matrix of all scores: blocks of queries meet blocks of keys, and a running softmax joins what they yield
// (FlashAttention, arXiv 2205.14135). A few queries go another way: their probabilities fit in memory, and reading the keys is the cost.
#pragma once

#include <lazyprune/backend/cpu/elementwise.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>
#include <lazyprune/backend/cpu/product.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_ISA::simd {

using kv_layer = host_kv<float>;

/// The keys that one call attends to, in blocks. Slots in one run are used where they lie, so their blocks are the cache's.
class key_blocks {
 public:
  static constexpr std::size_t size = kv_layer::block_slots;

  key_blocks(const kv_layer& kv, const attention_rows& what)
      : kv_(&kv),
        slots_(what.slots),
        head_dim_(what.shape.head_dim),
        in_place_(is_run(what.slots)),
        lead_(in_place_ ? slots_[0] % size : 0) {}

  std::size_t count() const { return slots_.empty() ? 0 : (lead_ + slots_.size() + size - 1) / size; }
  std::size_t begin(std::size_t block) const { return block == 0 ? 0 : block * size - lead_; }
  std::size_t end(std::size_t block) const { return std::min(slots_.size(), (block + 1) * size - lead_); }
  std::size_t keys(std::size_t block) const { return end(block) - begin(block); }

  /// One head's keys of the block (keys, head_dim), gathered in `scratch` (size * head_dim) where they are scattered.
  rows_view<const float> key_rows(std::size_t block, std::size_t kv_head, float* scratch) const {
    return gather(block, kv_head, scratch, [this](std::size_t slot) { return kv_->key(slot); });
  }
  rows_view<const float> value_rows(std::size_t block, std::size_t kv_head, float* scratch) const {
    return gather(block, kv_head, scratch, [this](std::size_t slot) { return kv_->value(slot); });
  }

 private:
  static bool is_run(std::span<const std::uint32_t> slots) {
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i] != slots[0] + i) return false;
    return !slots.empty();
  }

  template <class Rows>
  rows_view<const float> gather(std::size_t block, std::size_t kv_head, float* scratch, const Rows& row) const {
    const std::size_t first = begin(block), count = keys(block), at = kv_head * head_dim_;
    if (in_place_) return {row(slots_[first]) + at, count, head_dim_, kv_->width()};
    for (std::size_t i = 0; i < count; ++i) std::copy_n(row(slots_[first + i]) + at, head_dim_, scratch + i * head_dim_);
    return {scratch, count, head_dim_, head_dim_};
  }

  const kv_layer* kv_;
  std::span<const std::uint32_t> slots_;
  std::size_t head_dim_;
  bool in_place_;
  std::size_t lead_;  // slots of the first cache block that come before the first key
};

/// Attention of one block of queries and of all heads that share one key/value head, stacked: (queries * group, head_dim).
class query_block {
 public:
  /// Rows of the stack to aim at: enough for the products to run at full speed, few enough to waste little on the future.
  static constexpr std::size_t stack = 128;
  static std::size_t queries(const attention_shape& shape) { return std::max<std::size_t>(1, stack * shape.kv_heads / shape.heads); }

  static std::size_t scratch(const attention_shape& shape) {
    const std::size_t rows = stacked(shape), d = shape.head_dim;
    return 3 * detail::whole_lines(rows * d) + 2 * detail::whole_lines(rows * key_blocks::size) +
           2 * detail::whole_lines(key_blocks::size * d) + 2 * detail::whole_lines(rows);
  }

  query_block(const attention_shape& shape, float* scratch) : shape_(shape), group_(shape.heads / shape.kv_heads) {
    const std::size_t rows = stacked(shape), d = shape.head_dim;
    const auto take = [&scratch](std::size_t count) { return std::exchange(scratch, scratch + detail::whole_lines(count)); };
    queries_ = take(rows * d);
    packed_queries_ = take(rows * d);
    sums_ = take(rows * d);
    scores_ = take(rows * key_blocks::size);
    packed_scores_ = take(rows * key_blocks::size);
    gathered_ = take(key_blocks::size * d);
    packed_keys_ = take(key_blocks::size * d);
    largest_ = take(rows);
    mass_ = take(rows);
  }

  /// seen[r]: how many of the keys row r of q may look at.
  void attend(rows_view<const float> q, std::size_t kv_head, const key_blocks& keys, const std::size_t* seen, rows_view<float> out) {
    const std::size_t rows = q.rows * group_, d = shape_.head_dim, columns = kv_head * group_ * d;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d));
    for (std::size_t r = 0; r < q.rows; ++r)  // a row's heads of the group follow each other in q
      std::transform(q.row(r) + columns, q.row(r) + columns + group_ * d, queries_ + r * group_ * d, [&](float x) { return x * scale; });
    pack_rows({queries_, rows, d, d}, packed_queries_);
    std::fill_n(sums_, rows * d, 0.0f);
    std::fill_n(largest_, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(mass_, rows, 0.0f);

    for (std::size_t block = 0; block < keys.count() && keys.begin(block) < seen[q.rows - 1]; ++block) {
      const std::size_t count = keys.keys(block);
      pack_weights(keys.key_rows(block, kv_head, gathered_), packed_keys_);
      std::fill_n(scores_, rows * count, 0.0f);
      add_product(packed_queries_, packed_keys_, d, {scores_, rows, count, count});
      for (std::size_t i = 0; i < rows; ++i) {
        const std::size_t all = seen[i / group_], first = keys.begin(block);
        take_in(i, scores_ + i * count, all > first ? std::min(all - first, count) : 0, count);
      }
      pack_rows({scores_, rows, count, count}, packed_scores_);
      pack_weights_transposed(keys.value_rows(block, kv_head, gathered_), packed_keys_);
      add_product(packed_scores_, packed_keys_, count, {sums_, rows, d, d});
    }

    for (std::size_t i = 0; i < rows; ++i) simd::scale(sums_ + i * d, d, 1.0f / mass_[i]);
    for (std::size_t r = 0; r < q.rows; ++r) std::copy_n(sums_ + r * group_ * d, group_ * d, out.row(r) + columns);
  }

 private:
  static std::size_t stacked(const attention_shape& shape) { return queries(shape) * (shape.heads / shape.kv_heads); }

  /// The scores of row i become weights relative to the largest score so far; what was summed before is brought to the same measure.
  void take_in(std::size_t i, float* scores, std::size_t visible, std::size_t count) {
    std::fill(scores + visible, scores + count, 0.0f);
    if (visible == 0) return;
    const float largest = std::max(largest_[i], simd::largest(scores, visible));
    const float fade = std::exp(largest_[i] - largest);
    mass_[i] = mass_[i] * fade + static_cast<float>(exp_and_sum(scores, visible, largest));
    if (fade != 1.0f) simd::scale(sums_ + i * shape_.head_dim, shape_.head_dim, fade);
    largest_[i] = largest;
  }

  attention_shape shape_;
  std::size_t group_;      // query heads that share a key/value head
  float* queries_;         // (stacked, head_dim), times 1 / sqrt(head_dim)
  float* packed_queries_;  // the same
  float* sums_;            // (stacked, head_dim): the values weighed so far
  float* scores_;          // (stacked, keys)
  float* packed_scores_;   // the same
  float* gathered_;        // (keys, head_dim)
  float* packed_keys_;     // the same; then the values
  float* largest_;         // (stacked) the largest score so far
  float* mass_;            // (stacked) the sum of the weights so far
};

/// Attention of a few queries in two passes, each over the keys or values as they lie in memory, all heads of a slot at once.
class few_queries {
 public:
  static constexpr std::size_t chunk = 64;  // slots per task

  few_queries(int threads, const kv_layer& kv, const attention_rows& what)
      : threads_(threads), kv_(&kv), slots_(what.slots), shape_(what.shape), chunks_((slots_.size() + chunk - 1) / chunk) {}

  /// out (queries, heads, keys), rows `stride` apart, of q (queries, heads * head_dim); query r looks at the first seen[r] keys.
  void probabilities(rows_view<const float> q, const std::size_t* seen, float* out, std::size_t stride) const {
    detail::for_tasks(threads_, chunks_, [&](std::size_t task, std::size_t) {
      for_lines(task, [&](std::size_t first, std::size_t end, std::size_t head) {
        std::size_t i = first;
        for (; i + 4 <= end; i += 4) scores<4>(q, head, i, out, stride);
        for (; i < end; ++i) scores<1>(q, head, i, out, stride);
      });
    });
    detail::for_tasks(threads_, q.rows * shape_.heads, [&](std::size_t task, std::size_t) {
      const std::size_t visible = seen[task / shape_.heads];
      float* row = out + task * stride;
      const double mass = exp_and_sum(row, visible, largest(row, visible));
      simd::scale(row, visible, static_cast<float>(1.0 / mass));
      std::fill(row + visible, row + slots_.size(), 0.0f);
    });
  }

  /// Floats that `weigh` needs for so many queries.
  std::size_t scratch(std::size_t queries) const { return chunks_ * queries * shape_.heads * shape_.head_dim; }

  /// out (queries, heads * head_dim) = the values weighed with the probabilities: chunk by chunk, and then the chunks together.
  void weigh(const float* probability, std::size_t stride, rows_view<float> out, float* scratch) const {
    const std::size_t width = shape_.heads * shape_.head_dim;
    detail::for_tasks(threads_, chunks_, [&](std::size_t task, std::size_t) {
      float* sums = scratch + task * out.rows * width;
      std::fill_n(sums, out.rows * width, 0.0f);
      for_lines(task, [&](std::size_t first, std::size_t end, std::size_t head) {
        std::size_t i = first;
        for (; i + 4 <= end; i += 4) add_values<4>(probability, stride, head, i, out.rows, sums);
        for (; i < end; ++i) add_values<1>(probability, stride, head, i, out.rows, sums);
      });
    });
    for (std::size_t r = 0; r < out.rows; ++r) {
      std::fill_n(out.row(r), width, 0.0f);
      for (std::size_t c = 0; c < chunks_; ++c) add(scratch + (c * out.rows + r) * width, width, out.row(r));
    }
  }

 private:
  /// body(first, end, head) for pieces of a chunk: as many keys as a cache line holds scores, then the next head.
  template <class Body>
  void for_lines(std::size_t task, const Body& body) const {
    constexpr std::size_t line = 16;
    const std::size_t end = std::min((task + 1) * chunk, slots_.size());
    for (std::size_t first = task * chunk; first < end; first += line)
      for (std::size_t head = 0; head < shape_.heads; ++head) body(first, std::min(first + line, end), head);
  }

  template <std::size_t Keys>
  void scores(rows_view<const float> q, std::size_t head, std::size_t first, float* out, std::size_t stride) const {
    const std::size_t group = shape_.heads / shape_.kv_heads, d = shape_.head_dim;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d));
    std::array<const float*, Keys> keys;
    for (std::size_t j = 0; j < Keys; ++j) keys[j] = kv_->key(slots_[first + j]) + head / group * d;
    for (std::size_t r = 0; r < q.rows; ++r) {
      const auto products = dots<Keys>(keys, q.row(r) + head * d, d);
      for (std::size_t j = 0; j < Keys; ++j) out[(r * shape_.heads + head) * stride + first + j] = products[j] * scale;
    }
  }

  template <std::size_t Keys>
  void add_values(const float* probability, std::size_t stride, std::size_t head, std::size_t first, std::size_t queries,
                  float* sums) const {
    const std::size_t group = shape_.heads / shape_.kv_heads, d = shape_.head_dim;
    std::array<const float*, Keys> values;
    for (std::size_t j = 0; j < Keys; ++j) values[j] = kv_->value(slots_[first + j]) + head / group * d;
    for (std::size_t r = 0; r < queries; ++r) {
      const std::size_t row = r * shape_.heads + head;
      add_weighed<Keys>(probability + row * stride + first, values, d, sums + row * d);
    }
  }

  int threads_;
  const kv_layer* kv_;
  std::span<const std::uint32_t> slots_;
  attention_shape shape_;
  std::size_t chunks_;
};

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_ISA::simd
