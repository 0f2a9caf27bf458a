// SPDX-License-Identifier: MIT
// The weights of a model as a backend holds them, packed once and never changed, under the names that Hugging Face gives them.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// Where weights come from: a checkpoint, or numbers made up. `get` throws where the tensor is missing or has another shape
/// (rows 1: a vector); `find` is for tensors that may be missing. A source may have `release(t)`: the tensor is packed, its memory is
/// better used otherwise.
template <class S>
concept tensor_source = requires(const S s, std::string_view name, std::size_t n) {
  { s.get(name, n, n) } -> std::convertible_to<tensor>;
  { s.contains(name) } -> std::convertible_to<bool>;
};

template <tensor_backend Backend>
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
  parameters ffn_norm;                       // (hidden)
  matrix gate_up;                            // two of (ffn, hidden)
  std::optional<parameters> gate_up_bias;    // (2 ffn)
  matrix down;                               // (hidden, ffn)
  std::optional<parameters> down_bias;       // (hidden)
};

template <tensor_backend Backend>
struct model_weights {
  typename Backend::matrix embedding;  // (vocabulary, hidden)
  std::vector<layer_weights<Backend>> layers;
  typename Backend::parameters norm;             // (hidden)
  std::optional<typename Backend::matrix> head;  // (vocabulary, hidden); none: tied to the embedding
};

/// One model, shared by any number of running sequences.
template <tensor_backend Backend>
struct model {
  model_config config;
  model_weights<Backend> weights;

  const typename Backend::matrix& head() const { return weights.head ? *weights.head : weights.embedding; }
};

struct load_options {
  std::optional<dtype> as;                                           // f32 or bf16; none: bf16 where stored so, else f32
  std::function<void(std::size_t done, std::size_t of)> progress{};  // layers packed
};

namespace detail {

template <tensor_source Source>
void release([[maybe_unused]] const Source& source, [[maybe_unused]] const tensor& packed) {
  if constexpr (requires { source.release(packed); }) source.release(packed);
}

}  // namespace detail

/// Packs a model's weights. Throws where the source lacks a tensor or its shape is not the config's.
template <tensor_backend Backend, tensor_source Source>
model<Backend> load_model(Backend& backend, const model_config& config, const Source& source, const load_options& options = {}) {
  const std::size_t hidden = config.hidden, q_size = config.n_heads * config.head_dim, kv_size = config.n_kv_heads * config.head_dim;
  const auto as = [&](const tensor& t) { return options.as.value_or(t.type == dtype::bf16 ? dtype::bf16 : dtype::f32); };
  const auto matrix = [&](const std::string& name, std::size_t outputs, std::size_t inputs) {
    const tensor t = source.get(name, outputs, inputs);
    auto packed = backend.pack(std::span(&t, 1), as(t));
    detail::release(source, t);
    return packed;
  };
  const auto parameters = [&](const std::string& name, std::size_t size) {
    const tensor t = source.get(name, 1, size);
    return backend.load(std::span(&t, 1));
  };
  const auto parameters_if = [&](bool there, const std::string& name, std::size_t size) {
    return there ? std::optional(parameters(name, size)) : std::nullopt;
  };

  const auto layer = [&](std::size_t index) {
    const std::string at = "model.layers." + std::to_string(index) + ".", attention = at + "self_attn.", mlp = at + "mlp.";
    const auto gated_matrix = [&] {
      const tensor gate = source.get(mlp + "gate_proj.weight", config.ffn, hidden),
                   up = source.get(mlp + "up_proj.weight", config.ffn, hidden);
      auto packed = backend.pack_gated(gate, up, as(gate));
      detail::release(source, gate);
      detail::release(source, up);
      return packed;
    };
    std::optional<typename Backend::parameters> gate_up_bias;
    if (config.mlp_bias)
      gate_up_bias =
          backend.load(std::array{source.get(mlp + "gate_proj.bias", 1, config.ffn), source.get(mlp + "up_proj.bias", 1, config.ffn)});
    return layer_weights<Backend>{
        .attention_norm = parameters(at + "input_layernorm.weight", hidden),
        .q = matrix(attention + "q_proj.weight", q_size, hidden),
        .k = matrix(attention + "k_proj.weight", kv_size, hidden),
        .v = matrix(attention + "v_proj.weight", kv_size, hidden),
        .q_bias = parameters_if(config.qkv_bias, attention + "q_proj.bias", q_size),
        .k_bias = parameters_if(config.qkv_bias, attention + "k_proj.bias", kv_size),
        .v_bias = parameters_if(config.qkv_bias, attention + "v_proj.bias", kv_size),
        .q_norm = parameters_if(config.qk_norm, attention + "q_norm.weight", config.head_dim),
        .k_norm = parameters_if(config.qk_norm, attention + "k_norm.weight", config.head_dim),
        .o = matrix(attention + "o_proj.weight", hidden, q_size),
        .o_bias = parameters_if(config.output_bias, attention + "o_proj.bias", hidden),
        .ffn_norm = parameters(at + "post_attention_layernorm.weight", hidden),
        .gate_up = gated_matrix(),
        .gate_up_bias = std::move(gate_up_bias),
        .down = matrix(mlp + "down_proj.weight", hidden, config.ffn),
        .down_bias = parameters_if(config.mlp_bias, mlp + "down_proj.bias", hidden),
    };
  };

  const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  const bool only_head = config.tied && !source.contains(embedding) && source.contains(head);  // tied models may be stored either way
  std::vector<layer_weights<Backend>> layers;
  layers.reserve(config.layers);
  for (std::size_t index = 0; index < config.layers; ++index) {
    if (options.progress) options.progress(index, config.layers);
    layers.push_back(layer(index));
  }
  model<Backend> result{config,
                        {.embedding = matrix(only_head ? head : embedding, config.vocabulary, hidden),
                         .layers = std::move(layers),
                         .norm = parameters("model.norm.weight", hidden),
                         .head = config.tied ? std::nullopt : std::optional(matrix(head, config.vocabulary, hidden))}};
  if (options.progress) options.progress(config.layers, config.layers);
  return result;
}

/// Bytes that the weights take in the backend's memory.
template <tensor_backend Backend>
std::size_t bytes_of(const model_weights<Backend>& weights) {
  const auto of = [](const auto&... parts) { return (parts.bytes() + ...); };
  const auto if_there = [](const auto&... parts) { return ((parts ? parts->bytes() : std::size_t{0}) + ...); };
  std::size_t bytes = of(weights.embedding, weights.norm) + if_there(weights.head);
  for (const layer_weights<Backend>& l : weights.layers)
    bytes += of(l.attention_norm, l.q, l.k, l.v, l.o, l.ffn_norm, l.gate_up, l.down) +
             if_there(l.q_bias, l.k_bias, l.v_bias, l.q_norm, l.k_norm, l.o_bias, l.gate_up_bias, l.down_bias);
  return bytes;
}

}  // namespace v0
}  // namespace lazyprune
