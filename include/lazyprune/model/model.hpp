// SPDX-License-Identifier: MIT
// A model: its shape, its weights as a backend holds them, and its rotary table. It is made once and shared by all threads and sequences.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/model/config.hpp>
#include <lazyprune/model/rotary_table.hpp>
#include <lazyprune/model/weights.hpp>

namespace lazyprune {
inline namespace v0 {

/// Nothing of it changes, but that any thread may make the rotary table longer.
template <tensor_backend Backend>
struct model {
  model_config config;
  model_weights<Backend> weights;
  rotary_table<Backend> rope{config};

  const typename Backend::matrix& head() const { return weights.head ? *weights.head : weights.embedding; }
};

struct load_options {
  std::optional<dtype> as;                                           // f32 or bf16; none: bf16 where the source has it so, else f32
  std::function<void(std::size_t done, std::size_t of)> progress{};  // layers packed
};

namespace detail {

/// Throws `error` for a shape that no model has.
inline void check_shape(const model_config& c) {
  const auto positive = [](std::string_view what, std::size_t number) {
    if (number == 0) throw error("model", what, "at least 1", "0");
  };
  positive("vocabulary", c.vocabulary);
  positive("hidden", c.hidden);
  positive("layers", c.layers);
  positive("n_heads", c.n_heads);
  positive("n_kv_heads", c.n_kv_heads);
  positive("head_dim", c.head_dim);
  positive("ffn", c.ffn);
  positive("max_positions", c.max_positions);
  if (c.n_heads % c.n_kv_heads != 0)
    throw error("model", "n_kv_heads", "a divisor of n_heads, " + std::to_string(c.n_heads), std::to_string(c.n_kv_heads));
  if (c.head_dim % 2 != 0) throw error("model", "head_dim", "an even number, for rotary positions", std::to_string(c.head_dim));
}

/// Takes tensors from a source and packs them.
template <tensor_backend Backend, tensor_source Source>
class model_loader {
 public:
  using matrix = typename Backend::matrix;
  using parameters = typename Backend::parameters;

  model_loader(Backend& backend, const model_config& config, const Source& source, const load_options& options)
      : backend_(backend), config_(config), source_(source), options_(options) {}

  model_weights<Backend> load() const {
    const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
    // Tied models may be stored either way.
    const bool only_head = config_.tied && !source_.contains(embedding) && source_.contains(head);
    std::vector<layer_weights<Backend>> layers;
    layers.reserve(config_.layers);
    for (std::size_t index = 0; index < config_.layers; ++index) {
      progress(index);
      layers.push_back(layer("model.layers." + std::to_string(index) + "."));
    }
    model_weights<Backend> weights{.embedding = packed(only_head ? head : embedding, config_.vocabulary, config_.hidden),
                                   .layers = std::move(layers),
                                   .norm = loaded("model.norm.weight", config_.hidden),
                                   .head = config_.tied ? std::nullopt : std::optional(packed(head, config_.vocabulary, config_.hidden))};
    progress(config_.layers);
    return weights;
  }

 private:
  layer_weights<Backend> layer(const std::string& at) const {
    const std::string attention = at + "self_attn.", mlp = at + "mlp.";
    const std::size_t hidden = config_.hidden, ffn = config_.ffn, d = config_.head_dim;
    const std::size_t q_size = config_.n_heads * d, kv_size = config_.n_kv_heads * d;
    return {
        .attention_norm = loaded(at + "input_layernorm.weight", hidden),
        .q = packed(attention + "q_proj.weight", q_size, hidden),
        .k = packed(attention + "k_proj.weight", kv_size, hidden),
        .v = packed(attention + "v_proj.weight", kv_size, hidden),
        .q_bias = loaded_if(config_.qkv_bias, attention + "q_proj.bias", q_size),
        .k_bias = loaded_if(config_.qkv_bias, attention + "k_proj.bias", kv_size),
        .v_bias = loaded_if(config_.qkv_bias, attention + "v_proj.bias", kv_size),
        .q_norm = loaded_if(config_.qk_norm, attention + "q_norm.weight", d),
        .k_norm = loaded_if(config_.qk_norm, attention + "k_norm.weight", d),
        .o = packed(attention + "o_proj.weight", hidden, q_size),
        .o_bias = loaded_if(config_.output_bias, attention + "o_proj.bias", hidden),
        .ffn_norm = loaded(at + "post_attention_layernorm.weight", hidden),
        .gate_up = packed_gated(mlp + "gate_proj.weight", mlp + "up_proj.weight", ffn, hidden),
        .gate_up_bias = config_.mlp_bias ? std::optional(joined(mlp + "gate_proj.bias", mlp + "up_proj.bias", ffn)) : std::nullopt,
        .down = packed(mlp + "down_proj.weight", hidden, ffn),
        .down_bias = loaded_if(config_.mlp_bias, mlp + "down_proj.bias", hidden),
    };
  }

  matrix packed(const std::string& name, std::size_t outputs, std::size_t inputs) const {
    const tensor t = source_.get(name, outputs, inputs);
    matrix result = backend_.pack(std::span(&t, 1), type_for(t));
    release(t);
    return result;
  }
  matrix packed_gated(const std::string& gate_name, const std::string& up_name, std::size_t outputs, std::size_t inputs) const {
    const tensor gate = source_.get(gate_name, outputs, inputs), up = source_.get(up_name, outputs, inputs);
    matrix result = backend_.pack_gated(gate, up, type_for(gate));
    release(gate);
    release(up);
    return result;
  }
  parameters loaded(const std::string& name, std::size_t size) const {
    const tensor t = source_.get(name, 1, size);
    return backend_.load(std::span(&t, 1));
  }
  std::optional<parameters> loaded_if(bool there, const std::string& name, std::size_t size) const {
    return there ? std::optional(loaded(name, size)) : std::nullopt;
  }
  parameters joined(const std::string& one, const std::string& other, std::size_t size) const {
    return backend_.load(std::array{source_.get(one, 1, size), source_.get(other, 1, size)});
  }

  dtype type_for(const tensor& t) const { return options_.as.value_or(t.type == dtype::bf16 ? dtype::bf16 : dtype::f32); }
  void release([[maybe_unused]] const tensor& t) const {
    if constexpr (requires { source_.release(t); }) source_.release(t);
  }
  void progress(std::size_t done) const {
    if (options_.progress) options_.progress(done, config_.layers);
  }

  Backend& backend_;
  const model_config& config_;
  const Source& source_;
  const load_options& options_;
};

}  // namespace detail

/// Packs a model's weights. Throws `error` where the config's numbers do not go together, and where the source lacks a tensor or its shape
/// is not the config's.
template <tensor_backend Backend, tensor_source Source>
model<Backend> load_model(Backend& backend, const model_config& config, const Source& source, const load_options& options = {}) {
  detail::check_shape(config);
  return {config, detail::model_loader<Backend, Source>(backend, config, source, options).load()};
}

}  // namespace v0
}  // namespace lazyprune
