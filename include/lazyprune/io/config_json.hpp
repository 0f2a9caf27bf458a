// SPDX-License-Identifier: MIT
// A Hugging Face config.json, read as transformers reads it. What we do not compute exactly is refused by its name, never ignored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/io/json.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

struct model_family {
  std::string_view name, architecture;
  std::size_t max_positions;              // where the file says nothing; transformers' defaults, like the following
  std::optional<std::size_t> head_dim;    // none: hidden / heads
  bool own_kv_heads;                      // the file must say how many; else as many as query heads
  bool has_attention_bias, has_mlp_bias;  // the keys mean something
  bool window_switch;                     // a sliding window is in force only with use_sliding_window
};

inline constexpr model_family model_families[] = {
    {"llama", "LlamaForCausalLM", 2048, {}, false, true, true, false},
    {"mistral", "MistralForCausalLM", 131072, {}, true, false, false, false},
    {"qwen2", "Qwen2ForCausalLM", 32768, {}, true, false, false, true},
    {"qwen3", "Qwen3ForCausalLM", 32768, 128, true, true, false, true},
};

inline const model_family& family_of(const json_value& config) {
  const json_value type = config.at("model_type");
  for (const model_family& family : model_families)
    if (type.string() == family.name) {
      if (const auto list = config.find("architectures"))
        for (const json_value& architecture : list->items())
          if (architecture.string() != family.architecture) architecture.not_computed(family.architecture);
      return family;
    }
  type.not_computed("llama, mistral, qwen2 or qwen3");
}

template <class Value>
double positive(const Value& value) {
  if (!(value.number() > 0)) value.refuse("a number above 0");
  return value.number();
}

inline bool flag(const json_value& config, std::string_view key) {
  const auto value = config.find(key);
  return value && value->boolean();
}

/// Refuses keys of other models' arithmetic that a file of these families could carry.
inline void refuse_what_is_not_computed(const json_value& config, const model_family& family) {
  for (const std::string_view key :
       {"quantization_config", "compression_config", "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar",
        "attention_multiplier", "residual_multiplier", "embedding_multiplier", "logits_scaling", "logit_scale", "scale_emb", "scale_depth"})
    if (const auto value = config.find(key)) value->not_computed("no such key: it is not computed here");
  if (const auto act = config.find("hidden_act"); act && act->string() != "silu") act->not_computed("silu");
  if (const auto factor = config.find("partial_rotary_factor"); factor && factor->number() != 1.0) factor->not_computed("1");
  if (const auto types = config.find("layer_types"))
    for (const json_value& type : types->items())
      if (type.string() != "full_attention") type.not_computed("full_attention");
  if (const auto window = config.find("sliding_window"); window && (!family.window_switch || flag(config, "use_sliding_window")))
    window->not_computed("null: sliding windows are not computed");
  const auto refuse_flag = [&](std::string_view key, std::string_view expected = "false") {
    if (flag(config, key)) config.at(key).not_computed(expected);
  };
  refuse_flag("use_sliding_window", "false: sliding windows are not computed");
  refuse_flag("use_mrope");
  if (!family.has_mlp_bias) refuse_flag("mlp_bias");
  if (family.name == "mistral") refuse_flag("attention_bias");
}

/// transformers' `get_mscale`: how much YaRN scales cosines and sines (arXiv 2309.00071, section 3.4).
inline double yarn_scale(double factor, double weight = 1.0) { return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

/// The `factor` of linear, llama3 and yarn.
inline double rope_factor(const json_value& scaling) {
  const double value = scaling.at("factor").number();
  if (value < 1.0 || value > 1e6) scaling.at("factor").refuse("a number from 1 to a million");
  return value;
}

inline std::size_t rope_original(const json_value& value) { return static_cast<std::size_t>(value.whole_number(1, 1u << 30)); }

inline void read_llama3(const json_value& scaling, rope_config& rope) {
  rope.scaling = rope_scaling::llama3;
  rope.factor = rope_factor(scaling);
  rope.original_positions = rope_original(scaling.at("original_max_position_embeddings"));
  rope.low_frequency = positive(scaling.at("low_freq_factor"));
  rope.high_frequency = positive(scaling.at("high_freq_factor"));
  if (rope.high_frequency <= rope.low_frequency) scaling.at("high_freq_factor").refuse("a number above low_freq_factor");
}

/// `kind` is the value that says "yarn": complaints about several keys together name it.
inline void read_yarn(const json_value& scaling, const json_value& kind, std::size_t max_positions, rope_config& rope) {
  const auto positive_or = [&](std::string_view key, double otherwise) {
    const auto value = scaling.find(key);
    return value ? positive(*value) : otherwise;
  };
  rope.scaling = rope_scaling::yarn;
  const auto before = scaling.find("original_max_position_embeddings");
  rope.original_positions = before ? rope_original(*before) : max_positions;
  // As in transformers, a null factor is the ratio of the lengths.
  rope.factor = scaling.find("factor") || !before ? rope_factor(scaling)
                                                  : static_cast<double>(max_positions) / static_cast<double>(rope.original_positions);
  rope.beta_fast = positive_or("beta_fast", rope.beta_fast);
  rope.beta_slow = positive_or("beta_slow", rope.beta_slow);
  if (rope.beta_fast < rope.beta_slow) kind.refuse("beta_fast not below beta_slow");
  if (rope.theta <= 1.0) kind.refuse("a rope_theta above 1 with yarn");
  if (scaling.find("truncate")) rope.truncate = flag(scaling, "truncate");
  const auto weight = scaling.find("mscale"), weight_all = scaling.find("mscale_all_dim");
  const bool weighted = weight && weight_all && weight->number() != 0 && weight_all->number() != 0;
  rope.attention_factor =
      positive_or("attention_factor", weighted ? yarn_scale(rope.factor, weight->number()) / yarn_scale(rope.factor, weight_all->number())
                                               : yarn_scale(rope.factor));
  if (!(std::isfinite(rope.attention_factor) && rope.attention_factor > 0)) kind.refuse("mscale and mscale_all_dim above 0");
}

/// `rope_scaling` beside a top-level `rope_theta` (transformers 4), or `rope_parameters` with everything inside (transformers 5).
inline rope_config rope_of(const json_value& config, std::size_t max_positions) {
  rope_config rope;
  const auto old_style = config.find("rope_scaling"), new_style = config.find("rope_parameters");
  if (old_style && new_style) old_style->refuse("one of rope_scaling and rope_parameters");
  const auto theta = config.find("rope_theta");
  if (theta) rope.theta = positive(*theta);
  const auto scaling = new_style ? new_style : old_style;
  if (!scaling) return rope;

  scaling->allow_only(
      {"type", "rope_type", "rope_theta", "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor", "beta_fast",
       "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate", "partial_rotary_factor", "finetuned"},
      error_code::unsupported);
  if (const auto inner = scaling->find("rope_theta")) {
    if (theta && inner->number() != rope.theta) inner->refuse("the same as the other rope_theta");
    rope.theta = positive(*inner);
  }
  if (const auto part = scaling->find("partial_rotary_factor"); part && part->number() != 1.0) part->not_computed("1");
  const auto type = scaling->find("rope_type"), old_type = scaling->find("type");
  if (type && old_type && type->string() != old_type->string()) old_type->refuse("the same as rope_type");
  if (!type && !old_type) scaling->at("rope_type").refuse("a string");

  const json_value& kind = type ? *type : *old_type;
  if (kind.string() == "linear") {
    rope.scaling = rope_scaling::linear;
    rope.factor = rope_factor(*scaling);
  } else if (kind.string() == "llama3") {
    read_llama3(*scaling, rope);
  } else if (kind.string() == "yarn") {
    read_yarn(*scaling, kind, max_positions, rope);
  } else if (kind.string() != "default") {
    kind.not_computed("default, linear, llama3 or yarn");
  }
  return rope;
}

}  // namespace detail

/// The token ids under `key`: a number, a list of them, or nothing; -1 and 2^32 - 1 stand for nothing in some files.
inline std::vector<token_id> token_ids_of(const json_value& config, std::string_view key, std::size_t vocabulary) {
  std::vector<token_id> ids;
  const auto value = config.find(key);
  if (!value) return ids;
  for (const json_value& id : value->is_array() ? value->items() : std::vector{*value})
    if (!(id.is_number() && (id.number() == -1.0 || id.number() == 4294967295.0)))
      ids.push_back(static_cast<token_id>(id.whole_number(0, vocabulary - 1)));
  return ids;
}

/// Throws `error` where a key is missing, out of its range, or asks for what is not computed.
inline model_config model_config_of(const json_value& config) {
  const detail::model_family& family = detail::family_of(config);
  detail::refuse_what_is_not_computed(config, family);
  const auto size = [](const json_value& value, std::size_t most) { return static_cast<std::size_t>(value.whole_number(1, most)); };
  constexpr std::size_t most_wide = std::size_t{1} << 20;

  model_config c;
  c.family = family.name;
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
  c.max_positions = positions ? size(*positions, std::size_t{1} << 30) : family.max_positions;
  if (c.family == "mistral" && !config.has("sliding_window") && c.max_positions > 4096)  // transformers' default where a file does not say
    throw error(config.file(), "sliding_window", "null: without the key it is 4096, and sliding windows are not computed", "no such key",
                error_code::unsupported);
  c.rms_epsilon = 1e-6;
  if (const auto epsilon = config.find("rms_norm_eps")) c.rms_epsilon = detail::positive(*epsilon);
  c.rope = detail::rope_of(config, c.max_positions);
  if (c.rope.scaling == rope_scaling::yarn)  // Qwen's files give the length before stretching
    c.max_positions = std::max(c.max_positions, static_cast<std::size_t>(static_cast<double>(c.rope.original_positions) * c.rope.factor));

  c.tied = detail::flag(config, "tie_word_embeddings");
  const bool attention_bias = family.has_attention_bias && detail::flag(config, "attention_bias");
  c.qkv_bias = attention_bias || family.name == "qwen2";
  c.output_bias = attention_bias;
  c.mlp_bias = detail::flag(config, "mlp_bias");
  c.qk_norm = family.name == "qwen3";

  c.bos = token_ids_of(config, "bos_token_id", c.vocabulary);
  if (c.bos.size() > 1) config.at("bos_token_id").refuse("one token id");
  c.eos = token_ids_of(config, "eos_token_id", c.vocabulary);
  return c;
}

}  // namespace v0
}  // namespace lazyprune
