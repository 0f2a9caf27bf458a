// SPDX-License-Identifier: MIT
// All that one running sequence holds beside the weights and the session: its tokens, caches and scratch. The caller owns it.
#pragma once

#include <algorithm>
#include <vector>

#include <lazyprune/model/kv_cache.hpp>
#include <lazyprune/model/rope.hpp>
#include <lazyprune/model/weights.hpp>

namespace lazyprune {
inline namespace v0 {

/// Bytes, weights apart: the most that each came to during a sequence.
struct memory_use {
  std::size_t kv = 0;
  std::size_t store = 0;
  std::size_t scratch = 0;
  std::size_t together = 0;  // keys, values and stored rows at once: the one grows as the other is taken back
  std::size_t total() const { return together + scratch; }
};

/// Seconds spent outside the model's arithmetic.
struct overhead_time {
  double policy = 0;  // scoring, selecting, planning
  double moving = 0;  // gathering, spilling and reviving rows
};

template <tensor_backend Backend>
struct decoder_state {
  using buffer = typename Backend::buffer;
  using scalar = typename Backend::scalar;

  /// Rows that are worked on at a time inside a layer, or as many as a scorer looks at; bounds the scratch.
  static constexpr std::size_t block_rows = 512;

  explicit decoder_state(const model_config& c)
      : kv(c),
        aux(c.hidden),
        x(c.hidden),
        norm(c.hidden),
        q(c.n_heads * c.head_dim),
        k(c.n_kv_heads * c.head_dim),
        v(c.n_kv_heads * c.head_dim),
        attention(c.n_heads * c.head_dim),
        ffn(c.ffn),
        logits_row(c.vocabulary),
        logits(c.vocabulary) {}

  /// Forgets the sequence, keeps the memory.
  void clear() {
    tokens.clear();
    kv.clear();
    overhead = {};
    most_stored = most_together = 0;
  }

  /// To be told after each layer.
  void note_memory() {
    const std::size_t stored = aux.bytes();
    most_stored = std::max(most_stored, stored);
    most_together = std::max(most_together, kv.bytes() + stored);
  }

  memory_use memory() const {
    std::size_t scratch = rope ? rope->bytes() : 0;
    for (const buffer* b : {&x, &norm, &q, &k, &v, &attention, &ffn, &logits_row}) scratch += b->bytes();
    scratch += (probabilities.capacity() + values.capacity()) * sizeof(float) + slots.capacity() * sizeof(std::uint32_t);
    return {.kv = kv.bytes(), .store = most_stored, .scratch = scratch, .together = most_together};
  }

  std::vector<token_id> tokens;  // (known)
  kv_cache<Backend> kv;
  typename Backend::row_store aux;  // (slots, hidden): the Aux Cache's rows
  overhead_time overhead;
  std::size_t most_stored = 0, most_together = 0;  // bytes

  std::optional<typename Backend::rope_table> rope;
  std::size_t rope_positions = 0;

  buffer x;                    // (rows of a layer, hidden): the residual stream
  buffer norm;                 // (block, hidden)
  buffer q, k, v, attention;   // (block, heads * head_dim)
  buffer ffn;                  // (block, ffn)
  buffer logits_row;           // (rows whose logits are read, vocabulary)
  std::vector<scalar> logits;  // (vocabulary), of the last step
  std::vector<std::uint32_t> slots, from_rows, to_rows;
  std::vector<scalar> hidden_rows;
  std::vector<float> probabilities;  // (queries, heads, active)
  std::vector<float> values;         // (active, kv_heads * head_dim), or (rows, hidden)
};

}  // namespace v0
}  // namespace lazyprune
