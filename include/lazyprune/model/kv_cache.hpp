// SPDX-License-Identifier: MIT
// The keys and values of one sequence. Each layer has rows of keys and values, and the slot of each token's row. Memory grows with the rows
// that were computed, not with context times layers. Only the slot numbers exist for all tokens; they take 4 bytes for each token and
// layer. Copies of a cache share the memory of their rows. A copy that writes to a block of rows gets its own block.
#pragma once

#include <algorithm>
#include <concepts>
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
  /// `types` (layers): the dtype of each layer's rows, if the backend lets the caller choose; empty: f32.
  explicit kv_cache(const model_config& config, std::span<const dtype> types = {}) {
    for (std::size_t l = 0; l < config.layers; ++l) layers_.push_back({new_layer(config, types.empty() ? dtype::f32 : types[l])});
  }

  /// Reserves the backend's memory for `tokens` tokens at every layer.
  void reserve(Backend& backend, std::size_t tokens) {
    for (layer_rows& at : layers_) {
      backend.reserve(at.rows, tokens);
      at.slots.reserve(tokens);
    }
  }

  /// Stores `k` and `v`, (tokens, kv_heads * head_dim), as the rows of the tokens. The rows take the layer's free slots in ascending order,
  /// and then new slots.
  void put(Backend& backend, layer_id layer, std::span<const position> tokens, rows_view<const typename Backend::scalar> k,
           rows_view<const typename Backend::scalar> v) {
    put(layer, tokens, [&](typename Backend::kv_layer& rows, std::span<const std::uint32_t> slots) { backend.put(rows, slots, k, v); });
  }

  /// Calls put_rows(rows, slots), which must store the keys and values of the tokens in these slots of the layer's rows.
  template <class PutRows>
  void put(layer_id layer, std::span<const position> tokens, const PutRows& put_rows) {
    if (tokens.empty()) return;
    layer_rows& at = layers_[layer];
    if (at.slots.size() <= tokens.back()) at.slots.resize(tokens.back() + 1, none);
    at.find_free();
    if constexpr (requires { at.rows.forget(at.free); }) at.rows.forget(at.free);
    new_slots_.resize(tokens.size());
    auto next = static_cast<std::uint32_t>(at.rows.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      new_slots_[i] = at.free.empty() ? next++ : at.free.back();
      if (!at.free.empty()) at.free.pop_back();
      at.slots[tokens[i]] = new_slots_[i];
    }
    put_rows(at.rows, std::span<const std::uint32_t>(new_slots_));
  }

  /// Writes the slots to `out` that `put` would give to the next `count` rows of a layer.
  void next_slots(layer_id layer, std::size_t count, std::vector<std::uint32_t>& out) {
    layer_rows& at = layers_[layer];
    at.find_free();
    std::size_t free = at.free.size();
    auto next = static_cast<std::uint32_t>(at.rows.size());
    out.resize(count);
    for (std::uint32_t& slot : out) slot = free > 0 ? at.free[--free] : next++;
  }

  /// Calls put_rows(rows, slots), which must store keys and values in these slots of the layer's rows. `next_slots` wrote the slots. The
  /// tokens of these rows are not known yet. Call `name` later, before another `put`.
  template <class PutRows>
  void put_unnamed(layer_id layer, std::span<const std::uint32_t> slots, const PutRows& put_rows) {
    put_rows(layers_[layer].rows, slots);
  }

  /// Names the tokens, which ascend, of all slots that next_slots wrote for this layer.
  void name(layer_id layer, std::span<const position> tokens, std::span<const std::uint32_t> slots) {
    if (tokens.empty()) return;
    layer_rows& at = layers_[layer];
    if (at.slots.size() <= tokens.back()) at.slots.resize(tokens.back() + 1, none);
    for (std::size_t i = 0; i < tokens.size(); ++i) at.slots[tokens[i]] = slots[i];
    at.free.resize(at.free.size() - std::min(at.free.size(), tokens.size()));
  }

  /// Stores `k` and `v` in the `tokens.size()` slots from `first` on. They must be the next new slots of the layer. If a token is
  /// `free_slot`, its slot stays free. So the rows of a saved cache get their old slots, and attention adds them in the same order.
  void put_back(Backend& backend, layer_id layer, std::size_t first, std::span<const position> tokens,
                rows_view<const typename Backend::scalar> k, rows_view<const typename Backend::scalar> v) {
    layer_rows& at = layers_[layer];
    new_slots_.resize(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      new_slots_[i] = static_cast<std::uint32_t>(first + i);
      if (tokens[i] == free_slot) continue;
      if (at.slots.size() <= tokens[i]) at.slots.resize(tokens[i] + 1, none);
      at.slots[tokens[i]] = new_slots_[i];
    }
    at.free_is = layer_rows::unknown;
    backend.put(at.rows, new_slots_, k, v);
  }

  static constexpr position free_slot = static_cast<position>(-1);

  /// Returns the token of each of a layer's slots; `free_slot` if no token has it.
  std::vector<position> tokens_of_slots(layer_id layer) const {
    const layer_rows& at = layers_[layer];
    std::vector<position> tokens(at.rows.size(), free_slot);
    for (position t = 0; t < at.slots.size(); ++t)
      if (at.slots[t] != none) tokens[at.slots[t]] = t;
    return tokens;
  }

  const typename Backend::kv_layer& rows(layer_id layer) const { return layers_[layer].rows; }

  /// Writes the slots of `tokens`, which ascend, to `out`. Tokens without a row in this layer must be the next ones that `put` gets, and
  /// `put` must have stored rows in this layer since any rows were forgotten. The function writes the slots that they will have.
  void slots(layer_id layer, std::span<const position> tokens, std::vector<std::uint32_t>& out) const {
    const layer_rows& at = layers_[layer];
    out.resize(tokens.size());
    std::size_t free = at.free.size();
    auto next = static_cast<std::uint32_t>(at.rows.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      out[i] = tokens[i] < at.slots.size() ? at.slots[tokens[i]] : none;
      if (out[i] == none) out[i] = free > 0 ? at.free[--free] : next++;
    }
  }
  std::uint32_t slot(layer_id layer, position token) const { return layers_[layer].slots[token]; }

  /// Forgets the rows of tokens for which `has(layer, token)` is false. Keeps their memory for new rows.
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
      at.free_is = used < size ? layer_rows::unknown : layer_rows::sorted;
    }
  }

  /// Forgets the rows of tokens >= `tokens`. Keeps their memory.
  void truncate(std::size_t tokens) noexcept {
    for (layer_rows& at : layers_) {
      std::size_t count = 0, least = at.rows.size();
      for (std::size_t t = tokens; t < at.slots.size(); ++t) {
        const std::uint32_t slot = std::exchange(at.slots[t], none);
        if (slot == none) continue;
        ++count;
        least = std::min<std::size_t>(least, slot);
      }
      if (least + count == at.rows.size() && at.free.empty())
        at.rows.truncate(least);
      else if (count > 0)
        at.free_is = layer_rows::unknown;
    }
  }

  /// Forgets the rows of these tokens in all layers. Keeps their memory.
  void forget(std::span<const position> tokens) noexcept {
    for (layer_rows& at : layers_)
      for (const position t : tokens)
        if (t < at.slots.size() && at.slots[t] != none) at.release(std::exchange(at.slots[t], none));
  }

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const layer_rows& at : layers_) sum += at.rows.bytes() + (at.slots.capacity() + at.free.capacity()) * sizeof(std::uint32_t);
    return sum;
  }

 private:
  static typename Backend::kv_layer new_layer(const model_config& config, [[maybe_unused]] dtype type) {
    if constexpr (std::constructible_from<typename Backend::kv_layer, std::size_t, std::size_t, dtype>)
      return typename Backend::kv_layer(config.n_kv_heads, config.head_dim, type);
    else
      return typename Backend::kv_layer(config.n_kv_heads, config.head_dim);
  }

  static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

  struct layer_rows {
    typename Backend::kv_layer rows;
    std::vector<std::uint32_t> slots{};                   // (tokens): the slot of each token; `none`: it has no row
    std::vector<std::uint32_t> free{};                    // slots below rows.size() that no token has
    enum { sorted, unsorted, unknown } free_is = sorted;  // sorted: `free` is descending; unknown: `free` must be found again

    void release(std::uint32_t slot) noexcept {
      if (free.size() == free.capacity()) free_is = unknown;
      if (free_is == unknown) return;
      free.push_back(slot);
      free_is = unsorted;
    }

    void find_free() {
      if (free_is == unsorted) std::ranges::sort(free, std::greater());
      if (free_is == unknown) {
        std::vector<bool> used(rows.size());
        for (const std::uint32_t slot : slots)
          if (slot != none) used[slot] = true;
        free.clear();
        for (std::size_t slot = used.size(); slot-- > 0;)
          if (!used[slot]) free.push_back(static_cast<std::uint32_t>(slot));
      }
      free_is = sorted;
    }
  };

  std::vector<layer_rows> layers_;
  std::vector<std::uint32_t> new_slots_;
};

}  // namespace v0
}  // namespace lazyprune
