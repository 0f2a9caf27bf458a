// SPDX-License-Identifier: MIT
// Keys and tensors that all Gemma families share in their files.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include <lazyprune/files/family/gguf_keys.hpp>
#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/family/model_family.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

inline constexpr tensor_name gemma_tensors[] = {{"post_attention_layernorm", "post_attention_norm"},
                                                {"pre_feedforward_layernorm", "ffn_norm"},
                                                {"post_feedforward_layernorm", "post_ffw_norm"}};

/// Sets the members of the config that are the same for all Gemma models.
inline void become_gemma(model_config& c) {
  c.activation = gate_activation::gelu_tanh;
  c.post_norms = true;
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));  // a float, as in transformers
}

/// Returns a soft cap from config.json or from GGUF, or 0 for no cap. If the key is missing, returns `otherwise`, which is transformers'
/// default. The value null in config.json, or 0 or false in GGUF, means no cap.
inline double soft_cap(const json_value& config, std::string_view key, double otherwise) {
  if (!config.has(key)) return otherwise;
  const auto value = config.find(key);
  return value ? positive(*value) : 0.0;
}
inline double soft_cap(const gguf_keys& file, std::string_view key, double otherwise) {
  const auto value = file.find(key);
  if (!value) return otherwise;
  return value->says_no() ? 0.0 : positive(*value);
}

inline void read_gemma(const json_value& config, model_config& c) {
  become_gemma(c);
  c.norms_less_one = true;
  expect_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  refuse_partial_rotation(config);
  refuse_flag(config, "use_bidirectional_attention");
  const auto scalar = config.find("query_pre_attn_scalar");
  const double divisor = scalar ? positive(*scalar) : 256.0;
  if (divisor != static_cast<double>(c.head_dim)) c.attention_scale = 1.0 / std::sqrt(divisor);
}

/// GGUF files do not store the scale of the attention scores. As in llama.cpp, it is 1 / sqrt(width of a head), but in the family's largest
/// model it is 1 / sqrt(hidden width / heads). `largest`: the number of layers of this largest model.
inline void read_gemma(const gguf_keys& file, std::size_t largest, model_config& c) {
  become_gemma(c);
  if (c.hidden % c.n_heads != 0) file.at("attention.head_count").refuse("a divisor of embedding_length, " + std::to_string(c.hidden));
  const auto numbers_of_head = c.hidden / c.n_heads;
  if (c.layers == largest && numbers_of_head != c.head_dim) c.attention_scale = 1.0 / std::sqrt(static_cast<double>(numbers_of_head));
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
