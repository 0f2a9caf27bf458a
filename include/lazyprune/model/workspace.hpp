// SPDX-License-Identifier: MIT
// The working state of one thread: a backend (its execution context) and memory for the rows of one step. Any number of sequences of the
// model can use it, one step after another or in a batch.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <lazyprune/model/model.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class transformer;

/// The largest sizes of a workspace's steps, for `reserve`.
struct step_sizes {
  std::size_t tokens;           // tokens of the longest sequence
  std::size_t rows = 0;         // rows of a layer over all sequences of a batch, including revived and waiting rows; 0: as many as `tokens`
  std::size_t outputs = 1;      // rows whose logits are read at a time
  std::size_t queries = 1;      // rows of a sequence whose attention a scorer reads in a layer; more than one for a window_view
  bool keys_or_values = false;  // whether a scorer reads keys or values
  std::size_t selections = 0;   // layers of a step after which the backend chooses tokens itself (choosing_backend)
};

/// The buffers grow until they fit the largest step, and are reused. The model and the backend must outlive the workspace.
template <tensor_backend Backend>
class workspace {
 public:
  using scalar = typename Backend::scalar;

  workspace(const lazyprune::model<Backend>& m, Backend& backend)
      : model_(&m),
        backend_(&backend),
        x_(m.config.hidden),
        between_(m.config.hidden),
        q_(m.config.n_heads * m.config.head_dim),
        k_(m.config.n_kv_heads * m.config.head_dim),
        v_(m.config.n_kv_heads * m.config.head_dim),
        logits_rows_(m.config.vocabulary),
        normed_(m.config.hidden),
        attended_(m.config.n_heads * m.config.head_dim),
        ffn_(m.config.ffn) {}

  const lazyprune::model<Backend>& model() const { return *model_; }
  Backend& backend() const { return *backend_; }

  /// Makes the model's rotary tables long enough for a whole sequence of `positions` tokens. Without this call, the tables grow with the
  /// sequences.
  void reserve(std::size_t positions) { reserve(rope_kind_for(model_->config, positions), positions); }
  /// Like `reserve(positions)`, but layers without a sliding window use the table of this `kind`.
  void reserve(rope_kind kind, std::size_t positions) {
    const model_config& c = model_->config;
    reach(kind, positions);
    if (c.window_rope && !c.windows.empty()) reach(rope_kind::windowed, positions);
  }

  /// Reserves the memory that steps of these sizes need. Such steps then allocate nothing on a device. Keys, values,
  /// stored and waiting rows belong to the sequences: see sequence::reserve. Throws `error` (no_room) for 0 tokens or more tokens than the
  /// model has positions.
  void reserve(const step_sizes& most) {
    const model_config& c = model_->config;
    if (most.tokens == 0 || most.tokens > c.max_positions)
      throw error("workspace", "reserve", "1 to the model's " + std::to_string(c.max_positions) + " positions", std::to_string(most.tokens),
                  error_code::no_room);
    const std::size_t rows = most.rows > 0 ? most.rows : most.tokens, block = std::min(rows, std::max(Backend::block_rows, most.queries));
    // LongRoPE has other frequencies for long sequences than for short ones. Steps may need both tables.
    for (const std::size_t length : {std::size_t{1}, most.tokens}) reserve(rope_kind_for(c, length), most.tokens);
    x_.reserve(rows);
    if constexpr (!attention_from_operands<Backend>)
      for (buffer* b : {&q_, &k_, &v_}) b->reserve(block);
    between_.reserve(std::max(block, std::min(most.tokens, Backend::block_rows)));
    logits_rows_.reserve(most.outputs);
    for (const layer_weights<Backend>& w : model_->weights.layers) {  // layers may have weights of different types
      backend_->prepare(normed_, block, w.q);
      if constexpr (attention_from_operands<Backend>)
        for (operand* o : {&q_, &k_, &v_}) backend_->prepare_results(*o, block, w.q);
      backend_->prepare(normed_, block, w.gate_up);
      backend_->prepare(attended_, block, w.o);
      backend_->prepare(ffn_, block, w.down);
    }
    backend_->prepare(normed_, most.outputs, model_->head());
    backend_->reserve({.rows = rows,
                       .columns = c.hidden,
                       .block = std::max(block, most.outputs),
                       .gated_outputs = 2 * c.ffn,
                       .shape = {c.n_heads, c.n_kv_heads, c.head_dim},
                       .active = most.tokens,
                       .queries = most.queries,
                       .read = most.keys_or_values ? most.tokens : 0,
                       .selections = most.selections});
  }

  /// Returns the bytes of the buffers, the backend's scratch, and the first `tokens` positions of the shared rotary tables.
  std::size_t bytes(std::size_t tokens) const {
    std::size_t scratch = backend_->bytes();
    for (const auto& rope : ropes_) scratch += rope ? rope->bytes_of(tokens) : 0;
    for (const buffer* b : {&x_, &between_, &logits_rows_}) scratch += b->bytes();
    for (const attention_input* a : {&q_, &k_, &v_}) scratch += a->bytes();
    for (const operand* o : {&normed_, &attended_, &ffn_}) scratch += o->bytes();
    return scratch + (probabilities_.capacity() + values_.capacity()) * sizeof(float) + slots_.capacity() * sizeof(std::uint32_t);
  }

 private:
  friend class transformer<Backend>;

  using buffer = typename Backend::buffer;
  using operand = typename Backend::operand;
  using attention_input = std::conditional_t<attention_from_operands<Backend>, operand, buffer>;

  void reach(rope_kind kind, std::size_t positions) {
    auto& rope = ropes_[static_cast<std::size_t>(kind)];
    if (positions > (rope ? rope->positions : 0)) rope = model_->rope(kind).reach(*backend_, positions);
  }
  const typename Backend::rope_table& rope(rope_kind kind) const { return ropes_[static_cast<std::size_t>(kind)]->values; }

  const lazyprune::model<Backend>* model_;
  Backend* backend_;
  std::array<std::shared_ptr<const typename rotary_table<Backend>::table>, rope_kinds> ropes_;

  buffer x_;                    // (rows of a layer, over all sequences; hidden): the residual stream
  std::size_t outputs_ = 0;     // rows at the front of x_ that are outputs of the last step
  buffer between_;              // (block, hidden): products before their norm, and waiting rows on their way to the Aux Cache
  attention_input q_, k_, v_;   // (block, heads * head_dim)
  buffer logits_rows_;          // (rows whose logits are read, vocabulary)
  operand normed_;              // (block, hidden)
  operand attended_;            // (block, heads * head_dim)
  operand ffn_;                 // (block, ffn)
  std::vector<scalar> logits_;  // (rows whose logits were read last, vocabulary)
  std::vector<std::uint32_t> slots_, from_rows_, to_rows_;
  std::vector<position> positions_;   // (rows of a layer)
  std::vector<scalar> read_;          // numbers that become floats in values_
  std::vector<float> probabilities_;  // (queries, heads, active) of each sequence; one head if the backend reduces the heads
  std::vector<float> values_;         // keys or values (active, kv_heads * head_dim), or hidden states (rows, hidden), for a scorer
};

}  // namespace v0
}  // namespace lazyprune
