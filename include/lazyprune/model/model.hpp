// SPDX-License-Identifier: MIT
// A model: its config, its weights in a backend's memory, and its rotary tables. It is loaded once and shared by all threads and sequences.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/model/config.hpp>
#include <lazyprune/model/rotary_table.hpp>
#include <lazyprune/model/weights.hpp>

namespace lazyprune {
inline namespace v0 {

/// The type that holds numbers of both types without rounding: bf16 if both are bf16, else f32.
constexpr dtype common_type(dtype a, dtype b) { return a == dtype::bf16 && b == dtype::bf16 ? dtype::bf16 : dtype::f32; }

/// A loaded model. It is immutable, but any thread may extend its rotary tables.
template <tensor_backend Backend>
struct model {
  model_config config;
  model_weights<Backend> weights;
  std::array<rotary_table<Backend>, rope_kinds> ropes{rotary_table<Backend>(config, rope_kind::usual),
                                                      rotary_table<Backend>(config, rope_kind::extended),
                                                      rotary_table<Backend>(config, rope_kind::windowed)};

  const rotary_table<Backend>& rope(rope_kind kind = rope_kind::usual) const { return ropes[static_cast<std::size_t>(kind)]; }
  const typename Backend::matrix& head() const { return weights.head ? *weights.head : weights.embedding; }

  /// Returns the type of each layer's keys and values, (layers), unless execution::kv sets it. It is the type of the layer's weights of q,
  /// k and v.
  std::vector<dtype> kv_types() const {
    std::vector<dtype> types(weights.layers.size(), dtype::f32);
    if constexpr (requires(const typename Backend::matrix& w) { w.type(); })
      std::ranges::transform(weights.layers, types.begin(), [](const auto& l) { return l.k.type(); });
    return types;
  }
  /// The type of stored rows, unless execution::kv sets it to f32 or bf16. The rows come from all layers, so the type is bf16 if all
  /// kv_types() are bf16, else f32.
  dtype stored_type() const {
    const std::vector<dtype> types = kv_types();
    return std::accumulate(types.begin(), types.end(), types.front(), common_type);
  }
};

struct load_options {
  /// The type of the packed matrices, f32 or bf16. Without a value, a matrix is bf16 if all its tensors are bf16 in the source, else f32.
  /// The tensors of q, k and v of a layer count as those of one matrix.
  std::optional<dtype> as;
  std::function<void(std::size_t done, std::size_t of)> progress{};  // `done`: layers taken from the source
};

namespace detail {

/// Throws `error` if the numbers of the config contradict each other.
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
  if (c.rotary_dim % 2 != 0 || c.rotary_dim > c.head_dim)
    throw error("model", "rotary_dim", "an even number up to head_dim, " + std::to_string(c.head_dim), std::to_string(c.rotary_dim));
  if (!c.windows.empty() && c.windows.size() != c.layers)
    throw error("model", "windows", std::to_string(c.layers) + ", one for each layer, or none", std::to_string(c.windows.size()));
}

/// Returns `count` rows of a matrix, or `count` numbers of a vector, from index `first` on. A slice of a tensor without data has no data
/// either.
inline tensor slice(const tensor& t, std::size_t first, std::size_t count) {
  tensor part = t;
  (t.rows == 1 ? part.columns : part.rows) = count;
  if (t.reader)
    part.first_row += first;
  else if (t.data)
    part.data += first * (t.rows == 1 ? size_of(t.type) : t.row_bytes());
  return part;
}

/// Asks a source for a model's tensors and packs them.
template <weight_packer Backend, tensor_source Source>
class model_loader {
 public:
  using matrix = typename Backend::matrix;
  using parameters = typename Backend::parameters;

  model_loader(Backend& backend, const model_config& config, const Source& source, const load_options& options)
      : backend_(backend), config_(config), source_(source), options_(options) {}

  model_weights<Backend> load() const {
    std::optional<model_weights<Backend>> weights;
    const auto all = [&] { weights = load_all(); };
    if constexpr (requires { backend_.pack_together(all); })
      backend_.pack_together(all);
    else
      all();
    return std::move(*weights);
  }

 private:
  model_weights<Backend> load_all() const {
    const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
    // A tied model has one matrix for the embedding and the head. A checkpoint may store it under either name.
    const bool only_head = config_.tied && !source_.contains(embedding) && source_.contains(head);
    progress(0);
    // Most files store their tensors in this order, so this reads them from front to back.
    return {.embedding = packed(only_head ? head : embedding, config_.vocabulary, config_.hidden),
            .layers = all_layers(),
            .norm = norm("model.norm.weight", config_.hidden),
            .head = config_.tied ? std::nullopt : std::optional(packed(head, config_.vocabulary, config_.hidden))};
  }

  static std::string name_of(std::size_t layer) { return "model.layers." + std::to_string(layer) + "."; }

  /// Returns the layers in the order of their places in the file if the source has the function `place`, else in ascending order. Many
  /// files store layer 10 right after layer 1. Such a file is read from front to back only if the layers are asked for in the file's order.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> layers(config_.layers);
    std::iota(layers.begin(), layers.end(), std::size_t{0});
    if constexpr (requires(std::string_view name) { source_.place(name); })
      std::ranges::stable_sort(layers, {}, [&](std::size_t index) { return source_.place(name_of(index) + "input_layernorm.weight"); });
    return layers;
  }
  std::vector<layer_weights<Backend>> all_layers() const {
    std::vector<std::optional<layer_weights<Backend>>> loaded(config_.layers);
    std::size_t done = 0;
    for (const std::size_t index : order()) {
      loaded[index] = layer(name_of(index));
      progress(++done);
    }
    std::vector<layer_weights<Backend>> layers;
    layers.reserve(config_.layers);
    for (auto& one : loaded) layers.push_back(std::move(*one));
    return layers;
  }

  layer_weights<Backend> layer(const std::string& at) const {
    const std::string attention = at + "self_attn.", mlp = at + "mlp.";
    const std::size_t hidden = config_.hidden, ffn = config_.ffn, d = config_.head_dim;
    const std::size_t q_size = config_.n_heads * d, kv_size = config_.n_kv_heads * d;
    const bool post = config_.post_norms;  // if false, `post_attention_layernorm` is the norm before the feed-forward
    auto [q, k, v] = packed_qkv(attention, q_size, kv_size);
    return {
        .attention_norm = norm(at + "input_layernorm.weight", hidden),
        .q = std::move(q),
        .k = std::move(k),
        .v = std::move(v),
        .q_bias = rotary_if(config_.qkv_bias, attention + "q_proj.bias", q_size),
        .k_bias = rotary_if(config_.qkv_bias, attention + "k_proj.bias", kv_size),
        .v_bias = loaded_if(config_.qkv_bias, attention + "v_proj.bias", kv_size),
        .q_norm = head_norm_if(config_.qk_norm, attention + "q_norm.weight"),
        .k_norm = head_norm_if(config_.qk_norm, attention + "k_norm.weight"),
        .o = packed(attention + "o_proj.weight", hidden, q_size),
        .o_bias = loaded_if(config_.output_bias, attention + "o_proj.bias", hidden),
        .o_norm = post ? std::optional(norm(at + "post_attention_layernorm.weight", hidden)) : std::nullopt,
        .ffn_norm = norm(at + (post ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight"), hidden),
        .gate_up = packed_gate_up(mlp, ffn, hidden),
        .gate_up_bias = config_.mlp_bias ? std::optional(joined(mlp + "gate_proj.bias", mlp + "up_proj.bias", ffn)) : std::nullopt,
        .down = packed(mlp + "down_proj.weight", hidden, ffn),
        .down_bias = loaded_if(config_.mlp_bias, mlp + "down_proj.bias", hidden),
        .down_norm = post ? std::optional(norm(at + "post_feedforward_layernorm.weight", hidden)) : std::nullopt,
    };
  }

  /// The three matrices get one type, because they multiply the same rows. Either all of them stay quantized or none.
  std::array<matrix, 3> packed_qkv(const std::string& attention, std::size_t q_size, std::size_t kv_size) const {
    const std::size_t hidden = config_.hidden;
    std::array<tensor, 3> of;
    if (config_.fused) {
      const tensor all = source_.get(attention + "qkv_proj.weight", q_size + 2 * kv_size, hidden);
      of = {slice(all, 0, q_size), slice(all, q_size, kv_size), slice(all, q_size + kv_size, kv_size)};
    } else {
      of = {source_.get(attention + "q_proj.weight", q_size, hidden), source_.get(attention + "k_proj.weight", kv_size, hidden),
            source_.get(attention + "v_proj.weight", kv_size, hidden)};
    }
    const dtype type = type_for(of);
    if (!std::ranges::all_of(of, &tensor::format))
      for (tensor& part : of) part.widens = true;
    return {backend_.pack(rotary_order(of[0]), type), backend_.pack(rotary_order(of[1]), type), backend_.pack(std::span(&of[2], 1), type)};
  }
  matrix packed_gate_up(const std::string& mlp, std::size_t ffn, std::size_t hidden) const {
    if (config_.fused) {
      const tensor both = source_.get(mlp + "gate_up_proj.weight", 2 * ffn, hidden);
      return backend_.pack_gated(slice(both, 0, ffn), slice(both, ffn, ffn), type_for(std::array{both}));
    }
    const tensor gate = source_.get(mlp + "gate_proj.weight", ffn, hidden), up = source_.get(mlp + "up_proj.weight", ffn, hidden);
    return backend_.pack_gated(gate, up, type_for(std::array{gate, up}));
  }

  matrix packed(const std::string& name, std::size_t outputs, std::size_t inputs) const {
    const tensor whole = source_.get(name, outputs, inputs);
    return backend_.pack(std::span(&whole, 1), type_for(std::array{whole}));
  }

  /// Returns slices of q or k, or of their bias or norm, in rotary order: numbers that rotate together are half a head apart. Heads that
  /// rotate as a whole already have this order. Scores do not change, because q and k are reordered alike.
  std::vector<tensor> rotary_order(const tensor& t) const {
    const std::size_t d = config_.head_dim, rotary = config_.rotary_dim, rest = d - rotary;
    if (rotary == 0 || rest == 0) return {t};
    std::vector<tensor> parts;
    for (std::size_t head = 0; head < (t.rows == 1 ? t.columns : t.rows); head += d)
      for (const auto& [first, count] :
           {std::pair(std::size_t{0}, rotary / 2), {rotary, rest / 2}, {rotary / 2, rotary / 2}, {rotary + rest / 2, rest / 2}})
        parts.push_back(slice(t, head + first, count));
    return parts;
  }

  /// Loads a norm's weights. With norms_less_one, the file stores w - 1 for a weight w. `rotates`: true for the norms of the
  /// heads, whose numbers are put in rotary order.
  parameters norm(const std::string& name, std::size_t size, bool rotates = false) const {
    tensor t = source_.get(name, 1, size);
    std::vector<float> whole;
    if (config_.norms_less_one) {
      whole.resize(size);
      widen(t, 0, size, whole.data());
      for (float& value : whole) value += 1.0f;  // in float, as transformers does
      t = {dtype::f32, 1, size, reinterpret_cast<const std::byte*>(whole.data())};
    }
    return backend_.load(rotates ? rotary_order(t) : std::vector{t});
  }
  std::optional<parameters> head_norm_if(bool there, const std::string& name) const {
    return there ? std::optional(norm(name, config_.head_dim, true)) : std::nullopt;
  }
  std::optional<parameters> loaded_if(bool there, const std::string& name, std::size_t size) const {
    if (!there) return std::nullopt;
    const tensor t = source_.get(name, 1, size);
    return backend_.load(std::span(&t, 1));
  }
  std::optional<parameters> rotary_if(bool there, const std::string& name, std::size_t size) const {
    return there ? std::optional(backend_.load(rotary_order(source_.get(name, 1, size)))) : std::nullopt;
  }
  parameters joined(const std::string& one, const std::string& other, std::size_t size) const {
    return backend_.load(std::array{source_.get(one, 1, size), source_.get(other, 1, size)});
  }

  /// Returns the type of the matrices that are made from these tensors.
  dtype type_for(std::span<const tensor> parts) const {
    if (options_.as) return *options_.as;
    dtype type = parts[0].type;
    for (const tensor& part : parts) type = common_type(type, part.type);
    return type;
  }
  void progress(std::size_t done) const {
    if (options_.progress) options_.progress(done, config_.layers);
  }

  Backend& backend_;
  const model_config& config_;
  const Source& source_;
  const load_options& options_;
};

/// A packer that packs nothing. With it, a loader asks a source for tensors without reading them.
struct no_packer {
  struct matrix {};
  struct parameters {};

  matrix pack(std::span<const tensor>, dtype) { return {}; }
  matrix pack_gated(const tensor&, const tensor&, dtype) { return {}; }
  parameters load(std::span<const tensor>) { return {}; }
};

}  // namespace detail

/// Asks a source for every tensor of a model, but packs nothing. The source can check the tensors, or note which ones are asked
/// for. Throws `error` as load_model does.
template <tensor_source Source>
void ask_for_weights(const model_config& config, const Source& source) {
  detail::check_shape(config);
  detail::no_packer nothing;
  const load_options options;
  detail::model_loader<detail::no_packer, Source>(nothing, config, source, options).load();
}

/// Packs the weights of a model. Throws `error` if the numbers of the config contradict each other. Throws `error` if a tensor is missing
/// or has another shape than the config says.
template <tensor_backend Backend, tensor_source Source>
model<Backend> load_model(Backend& backend, const model_config& config, const Source& source, const load_options& options = {}) {
  detail::check_shape(config);
  return {config, detail::model_loader<Backend, Source>(backend, config, source, options).load()};
}

}  // namespace v0
}  // namespace lazyprune
