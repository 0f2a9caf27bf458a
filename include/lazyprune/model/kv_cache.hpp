// SPDX-License-Identifier: MIT
// Keys and values of one sequence: per layer, rows in the order they were computed, and where each token's row lies. Memory follows
// what was computed, not context times layers; only the slot numbers, 4 bytes a token and layer, are there for all. Copies share the
// rows' memory, block by block, until one of them writes.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

template <tensor_backend Backend>
class kv_cache {
 public:
  explicit kv_cache(const model_config& config) {
    for (std::size_t l = 0; l < config.layers; ++l) layers_.push_back({typename Backend::kv_layer(config.n_kv_heads, config.head_dim)});
  }

  /// The tokens' rows, k and v (tokens, kv_heads * head_dim), take the layer's free slots, ascending, and then the next ones.
  void put(Backend& backend, layer_id layer, std::span<const position> tokens, rows_view<const typename Backend::scalar> k,
           rows_view<const typename Backend::scalar> v) {
    if (tokens.empty()) return;
    layer_rows& at = layers_[layer];
    const std::size_t before = bytes_of(at);
    if (at.slots.size() <= tokens.back()) at.slots.resize(tokens.back() + 1, none);
    if (at.holes) find_free(at);
    new_slots_.resize(tokens.size());
    auto next = static_cast<std::uint32_t>(at.rows.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      new_slots_[i] = at.free.empty() ? next++ : at.free.back();
      if (!at.free.empty()) at.free.pop_back();
      at.slots[tokens[i]] = new_slots_[i];
    }
    backend.put(at.rows, new_slots_, k, v);
    bytes_ += bytes_of(at) - before;
  }

  const typename Backend::kv_layer& rows(layer_id layer) const { return layers_[layer].rows; }

  /// The slots of these tokens, all of them cached.
  void slots(layer_id layer, std::span<const position> tokens, std::vector<std::uint32_t>& out) const {
    out.resize(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) out[i] = layers_[layer].slots[tokens[i]];
  }
  std::uint32_t slot(layer_id layer, position token) const { return layers_[layer].slots[token]; }

  /// Forgets the rows of tokens for which `has(layer, token)` is false, and keeps the memory for those to come.
  template <class Has>
  void retain(const Has& has) noexcept {
    for (layer_id l = 0; l < layers_.size(); ++l) {
      layer_rows& at = layers_[l];
      std::size_t used = 0, size = 0;
      for (position t = 0; t < at.slots.size(); ++t) {
        if (at.slots[t] == none) continue;
        if (!has(l, t)) {
          at.slots[t] = none;
          continue;
        }
        ++used;
        size = std::max<std::size_t>(size, at.slots[t] + 1);
      }
      at.rows.truncate(size);
      at.free.clear();
      at.holes = used < size;
    }
  }

  /// Forgets the rows of these tokens in all layers.
  void forget(std::span<const position> tokens) {
    for (layer_rows& at : layers_)
      for (const position t : tokens) {
        if (t >= at.slots.size() || at.slots[t] == none) continue;
        const std::uint32_t slot = std::exchange(at.slots[t], none);
        if (!at.holes) at.free.insert(std::ranges::lower_bound(at.free, slot, std::greater()), slot);
      }
  }

  std::size_t bytes() const { return bytes_; }

 private:
  struct layer_rows {
    typename Backend::kv_layer rows;
    std::vector<std::uint32_t> slots{};  // (tokens): of each token that has a row
    std::vector<std::uint32_t> free{};   // descending: slots among the rows that no token has
    bool holes = false;                  // they have yet to be found
  };
  static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

  static void find_free(layer_rows& at) {
    std::vector<bool> used(at.rows.size());
    for (const std::uint32_t slot : at.slots)
      if (slot != none) used[slot] = true;
    at.free.clear();
    for (std::size_t slot = used.size(); slot-- > 0;)
      if (!used[slot]) at.free.push_back(static_cast<std::uint32_t>(slot));
    at.holes = false;
  }

  static std::size_t bytes_of(const layer_rows& layer) {
    return layer.rows.bytes() + (layer.slots.capacity() + layer.free.capacity()) * sizeof(std::uint32_t);
  }

  std::vector<layer_rows> layers_;
  std::vector<std::uint32_t> new_slots_;
  std::size_t bytes_ = 0;
};

}  // namespace v0
}  // namespace lazyprune
