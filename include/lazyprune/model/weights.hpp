// SPDX-License-Identifier: MIT
// The weights of a model in a backend's memory. They are packed once and never changed. They come from a source, in which each tensor has
// its Hugging Face name.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// A source of weights: a checkpoint, or random numbers. `get(name, rows, columns)` throws if the tensor is missing or has another shape. A
/// vector is a tensor of one row. `contains` says whether an optional tensor exists. The loader may read a tensor after `get` has returned,
/// and on any thread. So the tensor's data must stay valid until the model is loaded, or until the last copy of tensor::held is gone. A
/// source may also have a function `place(name)`. It returns the place of a tensor in the file, as a value of any ordered type. The layers
/// are then loaded in the order of their places.
template <class S>
concept tensor_source = requires(const S s, std::string_view name, std::size_t n) {
  { s.get(name, n, n) } -> std::convertible_to<tensor>;
  { s.contains(name) } -> std::convertible_to<bool>;
};

template <weight_packer Backend>
struct layer_weights {
  using matrix = typename Backend::matrix;
  using parameters = typename Backend::parameters;

  parameters attention_norm;  // (hidden)
  matrix q;                   // (n_heads * head_dim, hidden)
  matrix k, v;                // (n_kv_heads * head_dim, hidden)
  std::optional<parameters> q_bias, k_bias, v_bias;
  std::optional<parameters> q_norm, k_norm;  // (head_dim)
  matrix o;                                  // (hidden, n_heads * head_dim)
  std::optional<parameters> o_bias;          // (hidden)
  std::optional<parameters> o_norm;          // (hidden): norm of the attention's output
  parameters ffn_norm;                       // (hidden)
  matrix gate_up;                            // two matrices (ffn, hidden), packed as one
  std::optional<parameters> gate_up_bias;    // two vectors (ffn), joined
  matrix down;                               // (hidden, ffn)
  std::optional<parameters> down_bias;       // (hidden)
  std::optional<parameters> down_norm;       // (hidden): norm of the feed-forward's output
};

template <weight_packer Backend>
struct model_weights {
  typename Backend::matrix embedding;  // (vocabulary, hidden)
  std::vector<layer_weights<Backend>> layers;
  typename Backend::parameters norm;             // (hidden)
  std::optional<typename Backend::matrix> head;  // (vocabulary, hidden); without a value, the embedding table serves as head
};

/// Returns the bytes of the weights in the backend's memory.
template <tensor_backend Backend>
std::size_t bytes_of(const model_weights<Backend>& weights) {
  const auto of = [](const auto&... parts) { return (parts.bytes() + ...); };
  const auto if_there = [](const auto&... parts) { return ((parts ? parts->bytes() : std::size_t{0}) + ...); };
  std::size_t bytes = of(weights.embedding, weights.norm) + if_there(weights.head);
  for (const layer_weights<Backend>& l : weights.layers)
    bytes += of(l.attention_norm, l.q, l.k, l.v, l.o, l.ffn_norm, l.gate_up, l.down) +
             if_there(l.q_bias, l.k_bias, l.v_bias, l.q_norm, l.k_norm, l.o_bias, l.o_norm, l.gate_up_bias, l.down_bias, l.down_norm);
  return bytes;
}

}  // namespace v0
}  // namespace lazyprune
