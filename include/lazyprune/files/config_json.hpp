// SPDX-License-Identifier: MIT
// Reads a Hugging Face config.json as transformers reads it. The keys that all families share are read here. The keys of one family are
// read in files/family/. A key that asks for something unsupported is an error that names the key. It is never ignored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/family/all.hpp>
#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

inline void expect_architecture(const json_value& config, std::string_view name) {
  if (const auto list = config.find("architectures"))
    for (const json_value& architecture : list->items())
      if (architecture.string() != name) architecture.refuse_unsupported(name);
}

inline const model_family& family_of(const json_value& config) {
  const json_value type = config.at("model_type");
  const model_family* const family = find_family(&model_family::model_type, type.string());
  if (!family) type.refuse_unsupported(family_names(&model_family::model_type));
  expect_architecture(config, family->architecture);
  return *family;
}

/// Returns the family of the text model under text_config if this is a model of text and images. Returns null for all other models.
inline const model_family* wrapped_family(const json_value& config) {
  return find_family(&model_family::wrapper_type, config.at("model_type").string());
}

/// Returns the object that describes the text model: config.json itself, or its text_config with transformers' defaults.
inline json_value text_config_of(const json_value& config) {
  const model_family* const family = wrapped_family(config);
  if (!family) return config;
  const json_value text = config.at("text_config");
  const auto type = text.find("model_type");
  if (type && type->string() != family->model_type) return text;
  return text.with_defaults(family->text_defaults).with_defaults(R"({"model_type": ")" + std::string(family->model_type) + "\"}");
}

inline constexpr std::string_view no_such_key = "this key to be absent, because lazyprune does not support it";

inline void refuse_quantization(const json_value& config) {
  for (const std::string_view key : {"quantization_config", "compression_config"})
    if (const auto value = config.find(key)) value->refuse_unsupported(no_such_key);
}

/// Refuses quantization, and keys that only other families use in their computations. A key is accepted if its value changes nothing. `c`
/// must already have the model's shape.
inline void refuse_other_keys(const json_value& config, const model_family& family, const model_config& c) {
  struct other_key {
    std::string_view name;
    double changes_nothing;
  };
  const double width = static_cast<double>(c.head_dim);
  const other_key keys[] = {{"attn_logit_softcapping", 0},
                            {"final_logit_softcapping", 0},
                            {"query_pre_attn_scalar", width},
                            {"attention_multiplier", 1.0 / std::sqrt(width)},
                            {"residual_multiplier", 1},
                            {"embedding_multiplier", 1},
                            {"logits_scaling", 1},
                            {"logit_scale", 1},
                            {"scale_emb", 1},
                            {"scale_depth", std::sqrt(static_cast<double>(c.layers))}};
  refuse_quantization(config);
  for (const other_key& key : keys)
    if (const auto value = config.find(key.name); value && std::ranges::find(family.keys, key.name) == family.keys.end())
      if (!value->is_number() || value->number() != key.changes_nothing) value->refuse_unsupported(no_such_key);
  if (!family.mlp_bias) refuse_flag(config, "mlp_bias");
}

/// Reads the sizes of the model.
inline void read_shape(const json_value& config, const model_family& family, model_config& c) {
  const auto size = [](const json_value& value, std::size_t most) { return static_cast<std::size_t>(value.whole_number(1, most)); };
  constexpr std::size_t most_wide = std::size_t{1} << 20;
  c.vocabulary = size(config.at("vocab_size"), std::size_t{1} << 24);
  c.hidden = size(config.at("hidden_size"), most_wide);
  c.layers = size(config.at("num_hidden_layers"), 4096);
  c.n_heads = size(config.at("num_attention_heads"), most_wide);
  c.ffn = size(config.at("intermediate_size"), most_wide);

  const auto kv_heads = config.find("num_key_value_heads");
  if (!kv_heads && family.own_kv_heads) config.at("num_key_value_heads").refuse("a whole number");
  c.n_kv_heads = kv_heads ? size(*kv_heads, most_wide) : c.n_heads;
  if (c.n_heads % c.n_kv_heads != 0) kv_heads->refuse("a divisor of num_attention_heads, " + std::to_string(c.n_heads));

  const auto head_dim = config.find("head_dim");
  if (!head_dim && !family.head_dim && c.hidden % c.n_heads != 0)
    config.at("num_attention_heads").refuse("a divisor of hidden_size, " + std::to_string(c.hidden));
  c.head_dim = head_dim ? size(*head_dim, most_wide) : family.head_dim.value_or(c.hidden / c.n_heads);
  if (c.head_dim % 2 != 0) throw error(config.file(), "head_dim", "an even number, for rotary positions", std::to_string(c.head_dim));

  const auto positions = config.find("max_position_embeddings");
  c.max_positions = positions ? positions_of(*positions) : family.max_positions;
}

}  // namespace detail

/// Returns the token ids under `key`. The value is a number or a list. If the key is missing, there are no ids. Leaves out 2^32 - 1 and -1,
/// which mean "no token" in some files.
inline std::vector<token_id> token_ids_of(const json_value& config, std::string_view key, std::size_t vocabulary) {
  std::vector<token_id> ids;
  const auto value = config.find(key);
  if (!value) return ids;
  for (const json_value& id : value->is_array() ? value->items() : std::vector{*value})
    if (!(id.is_number() && (id.number() == -1.0 || id.number() == 4294967295.0)))
      ids.push_back(static_cast<token_id>(id.whole_number(0, vocabulary - 1)));
  return ids;
}

namespace detail {

inline model_config text_model_config_of(const json_value& config) {
  const model_family& family = family_of(config);
  model_config c;
  c.family = family.name;
  read_shape(config, family, c);
  refuse_other_keys(config, family, c);
  c.rms_epsilon = family.rms_epsilon;
  if (const auto epsilon = config.find("rms_norm_eps")) c.rms_epsilon = positive(*epsilon);
  c.tied = flag(config, "tie_word_embeddings", family.tied);
  if (family.attention_bias) c.qkv_bias = c.output_bias = flag(config, "attention_bias");
  c.mlp_bias = flag(config, "mlp_bias");
  family.read_json(config, c);

  const auto ids = [&](std::string_view key, std::optional<token_id> usual) {
    if (usual && *usual < c.vocabulary && !config.has(key)) return std::vector{*usual};
    return token_ids_of(config, key, c.vocabulary);
  };
  c.bos = ids("bos_token_id", family.bos);
  if (c.bos.size() > 1) config.at("bos_token_id").refuse("one token id");
  c.eos = ids("eos_token_id", family.eos);
  return c;
}

}  // namespace detail

/// Returns the config of the text model that a config.json describes. In a model of text and images, the text model is under text_config.
/// Throws `error` if a key is missing, out of range, or asks for something unsupported.
inline model_config model_config_of(const json_value& config) {
  const model_family* const wrapped = detail::wrapped_family(config);
  if (wrapped) {
    detail::expect_architecture(config, wrapped->wrapper_architecture);
    detail::refuse_quantization(config);
  }
  model_config c = detail::text_model_config_of(detail::text_config_of(config));
  if (wrapped)
    if (auto eos = token_ids_of(config, "eos_token_id", c.vocabulary); !eos.empty()) c.eos = std::move(eos);
  return c;
}

}  // namespace v0
}  // namespace lazyprune
