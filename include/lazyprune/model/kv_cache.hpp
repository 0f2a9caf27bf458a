// SPDX-License-Identifier: MIT
// Keys and values of one sequence: per layer, rows in the order they were computed, and where each token's row lies. Memory follows
// what was computed, not context times layers; only the slot numbers, 4 bytes a token and layer, are there for all.
#pragma once

#include <vector>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class kv_cache {
 public:
  explicit kv_cache(const model_config& config) {
    for (std::size_t l = 0; l < config.layers; ++l) layers_.push_back({typename Backend::kv_layer(config.n_kv_heads, config.head_dim), {}});
  }

  /// The rows of these tokens are the next slots of the layer, k and v (tokens, kv_heads * head_dim).
  void append(Backend& backend, layer_id layer, std::span<const position> tokens, rows_view<const typename Backend::scalar> k,
              rows_view<const typename Backend::scalar> v) {
    auto& [rows, slots] = layers_[layer];
    const std::size_t before = bytes_of(layers_[layer]);
    auto slot = static_cast<std::uint32_t>(rows.size());
    if (!tokens.empty() && slots.size() <= tokens.back()) slots.resize(tokens.back() + 1);
    for (const position t : tokens) slots[t] = slot++;
    backend.append(rows, k, v);
    bytes_ += bytes_of(layers_[layer]) - before;
  }

  const typename Backend::kv_layer& rows(layer_id layer) const { return layers_[layer].rows; }

  /// The slots of these tokens, all of them cached.
  void slots(layer_id layer, std::span<const position> tokens, std::vector<std::uint32_t>& out) const {
    out.resize(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) out[i] = layers_[layer].slots[tokens[i]];
  }
  std::uint32_t slot(layer_id layer, position token) const { return layers_[layer].slots[token]; }

  /// Forgets the tokens and keeps the memory.
  void clear() {
    bytes_ = 0;
    for (layer_rows& layer : layers_) {
      layer.rows.clear();
      layer.slots.clear();
      bytes_ += bytes_of(layer);
    }
  }

  std::size_t bytes() const { return bytes_; }

 private:
  struct layer_rows {
    typename Backend::kv_layer rows;
    std::vector<std::uint32_t> slots;  // (tokens): of each token that has a row
  };

  static std::size_t bytes_of(const layer_rows& layer) { return layer.rows.bytes() + layer.slots.capacity() * sizeof(std::uint32_t); }

  std::vector<layer_rows> layers_;
  std::size_t bytes_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
