// SPDX-License-Identifier: MIT
// What a running thread of work computes in: a backend, which is its execution context, and memory for the rows of one step at a time.
// Any number of sequences of the model take turns in it.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lazyprune/model/model.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class transformer;

/// The most that a workspace's steps are, for `reserve`.
struct step_sizes {
  std::size_t tokens;           // of the longest sequence, in all
  std::size_t rows = 0;         // of a layer, of all sequences of a batch, those that come back too; 0: as many as tokens
  std::size_t outputs = 1;      // whose logits are read at a time
  std::size_t queries = 1;      // whose probabilities a scorer looks at: a window's are more than one
  bool keys_or_values = false;  // whether a scorer looks at those
};

/// Grows to the largest step seen and is then reused. The model and the backend must outlive it.
template <tensor_backend Backend>
class workspace {
 public:
  using scalar = typename Backend::scalar;

  workspace(const lazyprune::model<Backend>& m, Backend& backend)
      : model_(&m),
        backend_(&backend),
        x_(m.config.hidden),
        norm_(m.config.hidden),
        q_(m.config.n_heads * m.config.head_dim),
        k_(m.config.n_kv_heads * m.config.head_dim),
        v_(m.config.n_kv_heads * m.config.head_dim),
        attended_(m.config.n_heads * m.config.head_dim),
        ffn_(m.config.ffn),
        logits_rows_(m.config.vocabulary) {}

  const lazyprune::model<Backend>& model() const { return *model_; }
  Backend& backend() const { return *backend_; }

  /// Takes the model's rotary tables for so many positions, the length of a whole sequence. Without this call they grow with the
  /// sequences.
  void reserve(std::size_t positions) { reserve(rope_kind_for(model_->config, positions), positions); }
  /// The same, of a sequence whose layers without a window have positions of this kind.
  void reserve(rope_kind kind, std::size_t positions) {
    const model_config& c = model_->config;
    reach(kind, positions);
    if (c.window_rope && !c.windows.empty()) reach(rope_kind::windowed, positions);
  }

  /// All the memory ahead that steps of these sizes need of the backend. They then allocate nothing on a device: keys, values and rows put
  /// aside are the sequences' (sequence::reserve). Throws `error` (no_room) for no tokens, and for more than the model's positions.
  void reserve(const step_sizes& most) {
    const model_config& c = model_->config;
    if (most.tokens == 0 || most.tokens > c.max_positions)
      throw error("workspace", "reserve", "1 to the model's " + std::to_string(c.max_positions) + " positions", std::to_string(most.tokens),
                  error_code::no_room);
    const std::size_t rows = most.rows > 0 ? most.rows : most.tokens, block = std::min(rows, std::max(Backend::block_rows, most.queries));
    // With LongRoPE short sequences have other angles than long ones.
    for (const std::size_t length : {std::size_t{1}, most.tokens}) reserve(rope_kind_for(c, length), most.tokens);
    x_.reserve(rows);
    for (buffer* b : {&norm_, &q_, &k_, &v_, &attended_, &ffn_}) b->reserve(block);
    norm_.reserve(std::max(most.outputs, std::min(most.tokens, Backend::block_rows)));  // logits; rows that go from waiting to the store
    logits_rows_.reserve(most.outputs);
    backend_->reserve({.rows = rows,
                       .columns = c.hidden,
                       .block = std::max(block, most.outputs),
                       .inputs = std::max({c.hidden, c.ffn, c.n_heads * c.head_dim}),
                       .gated_outputs = 2 * c.ffn,
                       .shape = {c.n_heads, c.n_kv_heads, c.head_dim},
                       .active = most.tokens,
                       .queries = most.queries,
                       .read = most.keys_or_values ? most.tokens : 0});
  }

  /// The bytes that are here, the backend's scratch, and the part of the shared rotary table that so many tokens need.
  std::size_t bytes(std::size_t tokens) const {
    std::size_t scratch = backend_->bytes();
    for (const auto& rope : ropes_) scratch += rope ? rope->bytes_of(tokens) : 0;
    for (const buffer* b : {&x_, &norm_, &q_, &k_, &v_, &attended_, &ffn_, &logits_rows_}) scratch += b->bytes();
    return scratch + (probabilities_.capacity() + values_.capacity()) * sizeof(float) + slots_.capacity() * sizeof(std::uint32_t);
  }

 private:
  friend class transformer<Backend>;

  using buffer = typename Backend::buffer;

  void reach(rope_kind kind, std::size_t positions) {
    auto& rope = ropes_[static_cast<std::size_t>(kind)];
    if (positions > (rope ? rope->positions : 0)) rope = model_->rope(kind).reach(*backend_, positions);
  }
  const typename Backend::rope_table& rope(rope_kind kind) const { return ropes_[static_cast<std::size_t>(kind)]->values; }

  const lazyprune::model<Backend>* model_;
  Backend* backend_;
  std::array<std::shared_ptr<const typename rotary_table<Backend>::part>, rope_kinds> ropes_;

  buffer x_;                    // (rows of a layer, of all sequences, hidden): the residual stream
  std::size_t outputs_ = 0;     // so many rows, the first of x_, are what the last step finished
  buffer norm_;                 // (block, hidden)
  buffer q_, k_, v_;            // (block, heads * head_dim)
  buffer attended_;             // (block, heads * head_dim)
  buffer ffn_;                  // (block, ffn)
  buffer logits_rows_;          // (rows whose logits are read, vocabulary)
  std::vector<scalar> logits_;  // (rows that were read last, vocabulary)
  std::vector<std::uint32_t> slots_, from_rows_, to_rows_;
  std::vector<position> positions_;  // (rows of a layer)
  std::vector<scalar> hidden_rows_;
  std::vector<float> probabilities_;  // (queries, heads, active) of each sequence; one head where that is all that is read
  std::vector<float> values_;         // (active, kv_heads * head_dim), or (rows, hidden)
};

}  // namespace v0
}  // namespace lazyprune
