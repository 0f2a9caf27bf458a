// SPDX-License-Identifier: MIT
// Reads a model's config from the metadata and tensors of its GGUF file, and maps the names of tensors. The keys that all families share
// are read here. The keys of one family are read in files/family/. A key that asks for something unsupported is an error that names the
// key. It is never ignored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/family/all.hpp>
#include <lazyprune/files/family/gguf_keys.hpp>
#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/gguf.hpp>
#include <lazyprune/files/gguf_tokens.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns the GGUF name of the tensor with this Hugging Face name, or an empty string if the tensor has none. `of_family`: the family's
/// own names, which have precedence.
inline std::string gguf_name_of(std::string_view name, std::span<const tensor_name> of_family = {}) {
  constexpr tensor_name whole[] = {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
  constexpr tensor_name of_layer[] = {
      {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  const std::size_t end = std::min(name.rfind('.'), name.size());
  const std::string_view kind = name.substr(end), stem = name.substr(0, end);  // `kind`: ".weight" or ".bias"
  for (const tensor_name& t : whole)
    if (stem == t.hugging_face) return std::string(t.gguf).append(kind);
  constexpr std::string_view layers = "model.layers.";
  if (!stem.starts_with(layers)) return {};
  const std::size_t dot = stem.find('.', layers.size());
  if (dot == stem.npos) return {};
  for (const std::span<const tensor_name> names : {of_family, std::span<const tensor_name>(of_layer)})
    for (const tensor_name& t : names)
      if (stem.substr(dot + 1) == t.hugging_face)
        return std::string("blk.").append(stem.substr(layers.size(), dot - layers.size())).append(".").append(t.gguf).append(kind);
  return {};
}

namespace detail {

/// Reads the metadata of one architecture.
class gguf_config_reader {
 public:
  gguf_config_reader(const model_family& family, std::span<const gguf_file> shards) : family_(family), keys_(shards, family.gguf) {}

  model_config read() {
    if (const auto type = keys_.file().find("general.type"); type && type->string() != "model") type->refuse_unsupported("model");
    refuse_other_keys();
    read_shape();
    read_rope();
    read_tokens();
    const auto has = [&](std::string_view name) { return keys_.tensor(name) != nullptr; };
    config_.tied = !has("output.weight");
    config_.qkv_bias = has("blk.0.attn_q.bias");
    config_.output_bias = has("blk.0.attn_output.bias");
    config_.mlp_bias = has("blk.0.ffn_gate.bias");
    family_.read_gguf(keys_, config_);
    return std::move(config_);
  }

 private:
  /// Refuses the keys of the architecture that are not read, because they belong to computations that this library does not support. A key
  /// is accepted if its value changes nothing.
  void refuse_other_keys() const {
    constexpr std::string_view read_here[] = {"vocab_size",
                                              "context_length",
                                              "embedding_length",
                                              "block_count",
                                              "feed_forward_length",
                                              "attention.head_count",
                                              "attention.head_count_kv",
                                              "attention.key_length",
                                              "attention.value_length",
                                              "attention.layer_norm_rms_epsilon",
                                              "attention.layer_norm_epsilon",  // not used: it is for norms that no family here has
                                              "rope.dimension_count",
                                              "rope.freq_base",
                                              "rope.scaling.type",
                                              "rope.scaling.factor",
                                              "rope.scaling.original_context_length",
                                              "rope.scaling.finetuned",
                                              "rope.scale_linear",
                                              "tensor_data_layout",
                                              "attention.causal"};
    const auto reads = [](const auto& names, std::string_view name) { return std::ranges::find(names, name) != std::end(names); };
    for (const gguf_value& value : keys_.all()) {
      const std::string_view name = value.key().substr(keys_.architecture().size() + 1);
      if (!reads(read_here, name) && !reads(family_.gguf_keys, name) && !changes_nothing(name, value))
        value.refuse_unsupported("this key to be absent, because lazyprune does not support it");
    }
    if (const auto causal = keys_.find("attention.causal"); causal && !causal->boolean()) causal->refuse_unsupported("true");
  }

  /// Returns whether the model computes the same without this key.
  bool changes_nothing(std::string_view name, const gguf_value& value) const {
    const bool multiplies = name == "rope.scaling.attn_factor" || name.starts_with("rope.scaling.yarn_");  // here 0 means 0
    if (!multiplies && value.says_no()) return true;
    const auto is_one_of = [&](auto... names) { return ((name == names) || ...); };
    const auto same_as = [&](std::string_view other) { return keys_.find(other) && value.is(keys_.find(other)->number()); };
    if (is_one_of("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "logit_scale", "embedding_scale", "residual_scale"))
      return value.is(1);
    if (name == "attention.scale") return value.is(decimal_of(static_cast<float>(1.0 / std::sqrt(head_width()))));
    if (name == "attention.sliding_window") return value.whole_number() >= keys_.size("context_length", most_positions);
    if (name == "attention.sliding_window_pattern") return !keys_.find("attention.sliding_window");
    if (name == "rope.freq_base_swa") return same_as("rope.freq_base") || !keys_.find("attention.sliding_window");
    if (is_one_of("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa")) return value.is(head_width());
    const auto experts = keys_.find("expert_count");
    if (name.starts_with("expert_") && name != "expert_count") return !experts || experts->says_no();
    if (!name.starts_with("rope.scaling.yarn_")) return false;
    const auto type = keys_.find("rope.scaling.type");
    const bool yarn = type && type->is_string() && type->string() == "yarn";
    if (name == "rope.scaling.yarn_ext_factor")
      return value.is(-1) || (yarn ? value.is(1) : value.is(0) || !keys_.find("rope.scaling.factor"));
    const rope_config usual;
    if (name == "rope.scaling.yarn_beta_fast") return !yarn || value.is(usual.beta_fast);
    if (name == "rope.scaling.yarn_beta_slow") return !yarn || value.is(usual.beta_slow);
    return !yarn || (name == "rope.scaling.yarn_log_multiplier" && value.is(0));
  }

  double head_width() const {
    const auto width = keys_.size_if("attention.key_length");
    return width ? static_cast<double>(*width)
                 : static_cast<double>(keys_.size("embedding_length")) / static_cast<double>(keys_.size("attention.head_count"));
  }

  void read_shape() {
    model_config& c = config_;
    c.family = family_.name;
    c.hidden = keys_.size("embedding_length");
    c.layers = keys_.size("block_count", 4096);
    c.max_positions = keys_.size("context_length", std::size_t{1} << 30);
    c.n_heads = keys_.size("attention.head_count");
    c.ffn = keys_.size("feed_forward_length");
    c.n_kv_heads = keys_.size_if("attention.head_count_kv").value_or(c.n_heads);
    if (c.n_heads % c.n_kv_heads != 0)
      keys_.find("attention.head_count_kv")->refuse("a divisor of attention.head_count, " + std::to_string(c.n_heads));
    const auto head_dim = keys_.size_if("attention.key_length");
    if (!head_dim && c.hidden % c.n_heads != 0)
      keys_.find("attention.head_count")->refuse("a divisor of embedding_length, " + std::to_string(c.hidden));
    c.head_dim = head_dim.value_or(c.hidden / c.n_heads);
    if (c.head_dim % 2 != 0)
      throw error(keys_.file().name(), "metadata: " + keys_.key("attention.key_length"), "an even number, for rotary positions",
                  std::to_string(c.head_dim));
    for (const std::string_view same : {"attention.value_length", "rope.dimension_count"})
      if (const auto value = keys_.find(same); value && value->whole_number() != c.head_dim) {
        const std::uint64_t found = value->whole_number();
        if (same == "attention.value_length" || !family_.partial_rotation)
          value->refuse_unsupported(std::to_string(c.head_dim) + ", the width of a head");
        if (found < 2 || found > c.head_dim || found % 2 != 0) value->refuse("an even number up to " + std::to_string(c.head_dim));
        c.rotary_dim = static_cast<std::size_t>(found);
      }
    c.rms_epsilon = positive(keys_.at("attention.layer_norm_rms_epsilon"));
  }

  void read_rope() {
    rope_config& rope = config_.rope;
    const std::size_t half = (config_.rotary_dim ? config_.rotary_dim : config_.head_dim) / 2;
    if (const auto theta = keys_.find("rope.freq_base")) rope.theta = positive(*theta);
    read_scaling(rope);
    rope.divisors = keys_.divisors("rope_freqs.weight", half);  // how converters store Llama 3's scaling
    if (rope.scaling == rope_scaling::yarn && !rope.divisors.empty())
      keys_.refuse_tensor("rope_freqs.weight", "no such tensor beside yarn", "one", error_code::unsupported);
    read_longrope(rope, half);
  }

  void read_scaling(rope_config& rope) {
    const auto type = keys_.find("rope.scaling.type"), old_factor = keys_.find("rope.scale_linear"),
               factor = keys_.find("rope.scaling.factor");
    const auto& stated = factor ? factor : old_factor;
    const bool scales = stated && stated->number() != 0.0 && stated->number() != 1.0;  // 0 means no scaling
    const std::string_view kind = type ? type->string() : scales ? "linear" : "none";  // no type, but a factor: linear, as in llama.cpp
    if (kind == "linear" && stated && !scales) return;
    if (kind == "linear" || kind == "yarn") {
      const gguf_value of = stated ? *stated : keys_.at("rope.scaling.factor");
      rope.factor = of.number();
      if (rope.factor < 1.0 || rope.factor > 1e6) of.refuse("a number from 1 to a million");
      rope.scaling = kind == "linear" ? rope_scaling::linear : rope_scaling::yarn;
    } else if (kind != "none" && kind != "longrope") {
      type->refuse_unsupported("none, linear, yarn or longrope");
    }
    if (rope.scaling == rope_scaling::yarn) {
      if (rope.theta <= 1.0) keys_.find("rope.freq_base")->refuse("a number above 1 with yarn");
      rope.original_positions = keys_.size_if("rope.scaling.original_context_length", most_positions).value_or(config_.max_positions);
      rope.attention_factor = yarn_scale(rope.factor);
      config_.max_positions =
          std::max(config_.max_positions, static_cast<std::size_t>(static_cast<double>(rope.original_positions) * rope.factor));
    }
  }

  /// Reads the two tensors of LongRoPE if the file has them. The key rope.scaling.type need not be "longrope".
  void read_longrope(rope_config& rope, std::size_t half) {
    constexpr std::string_view names[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    const auto type = keys_.find("rope.scaling.type");
    const bool named = type && type->string() == "longrope";
    for (const std::string_view name : names)
      if (!keys_.tensor(name)) {
        if (named || keys_.tensor(names[0]) || keys_.tensor(names[1])) keys_.refuse_tensor(name, "one, for LongRoPE", "none");
        return;
      }
    if (rope.scaling != rope_scaling::none || !rope.divisors.empty())
      keys_.refuse_tensor(names[0], "no such tensor beside another scaling", "one", error_code::unsupported);
    rope.scaling = rope_scaling::longrope;
    rope.divisors = keys_.divisors(names[0], half);
    rope.long_divisors = keys_.divisors(names[1], half);
    const std::string original = "rope.scaling.original_context_length";
    rope.original_positions = keys_.size(original, most_positions);
    rope.factor = static_cast<double>(config_.max_positions) / static_cast<double>(rope.original_positions);
    if (rope.factor > 1.0 && rope.original_positions == 1) keys_.at(original).refuse("a length above 1");
    rope.attention_factor = longrope_scale(rope.factor, rope.original_positions);
  }

  /// Reads the vocabulary size, and the ids of the tokens that begin or end a sequence or end a turn.
  void read_tokens() {
    constexpr std::size_t most_tokens = std::size_t{1} << 24;
    const auto tokens = keys_.file().find("tokenizer.ggml.tokens");
    const stored_tensor* const embedding = keys_.tensor("token_embd.weight");
    std::vector<std::string_view> pieces;
    if (tokens) pieces = tokens->strings(most_tokens);
    if (tokens && pieces.empty()) tokens->refuse("1 to " + std::to_string(most_tokens) + " tokens");
    config_.vocabulary = tokens ? pieces.size() : keys_.size_if("vocab_size", most_tokens).value_or(0);
    if (config_.vocabulary == 0 && embedding && embedding->shape.size() == 2 && embedding->shape[0] <= most_tokens)
      config_.vocabulary = embedding->shape[0];

    if (const auto kind = keys_.file().find("tokenizer.ggml.model"); kind && kind->string() != "llama" && kind->string() != "gpt2")
      kind->refuse_unsupported("llama or gpt2");
    const auto numbers_of = [&](std::string_view name) {
      const auto value = keys_.file().find(name);
      return value ? value->numbers(config_.vocabulary) : std::vector<double>{};  // exactly one for each token
    };
    numbers_of("tokenizer.ggml.scores");  // only checks the count
    const std::vector<double> types = numbers_of("tokenizer.ggml.token_type");

    const auto named = [&](std::string_view key) { return gguf_token_id(keys_.file(), key, config_.vocabulary); };
    const auto [bos, eos, eot, eom] = gguf_named_tokens;
    if (const auto id = named(bos)) config_.bos.push_back(*id);
    const auto end = [&](token_id id) {
      if (std::ranges::find(config_.eos, id) == config_.eos.end()) config_.eos.push_back(id);
    };
    for (const std::string_view key : {eos, eot, eom})
      if (const auto id = named(key)) end(*id);
    for (std::size_t i = 0; i < std::min(pieces.size(), types.size()); ++i)
      if (ends_turn(pieces[i], types[i])) end(static_cast<token_id>(i));
  }

  const model_family& family_;
  gguf_keys keys_;
  model_config config_;
};

}  // namespace detail

/// Returns the config of a GGUF model. Throws `error` if a key is missing, out of range, or asks for something unsupported.
inline model_config model_config_of(std::span<const gguf_file> shards) {
  const gguf_value architecture = shards[0].at("general.architecture");
  const model_family* const family = find_family(&model_family::gguf, architecture.string());
  if (!family) architecture.refuse_unsupported(family_names(&model_family::gguf));
  return detail::gguf_config_reader(*family, shards).read();
}

}  // namespace v0
}  // namespace lazyprune
