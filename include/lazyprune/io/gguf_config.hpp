// SPDX-License-Identifier: MIT
// A model's shape by the metadata and tensors of its GGUF file, and its tensors' names there. What we do not compute exactly is refused by
// its name, never ignored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/io/config_json.hpp>
#include <lazyprune/io/gguf.hpp>
#include <lazyprune/model/config.hpp>

namespace lazyprune {
inline namespace v0 {

/// The name that a tensor has in GGUF files, by the one that Hugging Face gives it; empty where it has none.
inline std::string gguf_name_of(std::string_view name) {
  struct pair {
    std::string_view theirs, gguf;
  };
  constexpr pair whole[] = {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
  constexpr pair of_layer[] = {
      {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  const std::size_t end = std::min(name.rfind('.'), name.size());
  const std::string_view kind = name.substr(end), stem = name.substr(0, end);  // ".weight" or ".bias"
  for (const pair& p : whole)
    if (stem == p.theirs) return std::string(p.gguf).append(kind);
  constexpr std::string_view layers = "model.layers.";
  if (!stem.starts_with(layers)) return {};
  const std::size_t dot = stem.find('.', layers.size());
  if (dot == stem.npos) return {};
  for (const pair& p : of_layer)
    if (stem.substr(dot + 1) == p.theirs)
      return std::string("blk.").append(stem.substr(layers.size(), dot - layers.size())).append(".").append(p.gguf).append(kind);
  return {};
}

namespace detail {

/// Reads the metadata of one architecture.
class gguf_config_reader {
 public:
  explicit gguf_config_reader(std::span<const gguf_file> parts) : parts_(parts), file_(parts[0]) {}

  model_config read() {
    const gguf_value architecture = file_.at("general.architecture");
    architecture_ = architecture.string();
    if (architecture_ != "llama" && architecture_ != "qwen2" && architecture_ != "qwen3")
      architecture.not_computed("llama, qwen2 or qwen3");
    if (const auto type = file_.find("general.type"); type && type->string() != "model") type->not_computed("model");
    refuse_what_is_not_computed();
    read_shape();
    read_rope();
    read_tokens();
    const auto has = [&](std::string_view name) { return find_tensor(parts_, name) != nullptr; };
    config_.tied = !has("output.weight");
    config_.qkv_bias = has("blk.0.attn_q.bias");
    config_.output_bias = has("blk.0.attn_output.bias");
    config_.mlp_bias = has("blk.0.ffn_gate.bias");
    config_.qk_norm = architecture_ == "qwen3";
    return std::move(config_);
  }

 private:
  static constexpr std::size_t most_wide = std::size_t{1} << 20;

  std::string key(std::string_view name) const { return std::string(architecture_).append(".").append(name); }
  std::optional<gguf_value> find(std::string_view name) const { return file_.find(key(name)); }
  std::size_t size(std::string_view name, std::size_t most = most_wide) const {
    return static_cast<std::size_t>(file_.at(key(name)).whole_number(1, most));
  }
  std::optional<std::size_t> size_if(std::string_view name, std::size_t most = most_wide) const {
    const auto value = find(name);
    return value ? std::optional(static_cast<std::size_t>(value->whole_number(1, most))) : std::nullopt;
  }

  /// A key of the architecture that is none of these belongs to other arithmetic, unless it says no.
  void refuse_what_is_not_computed() const {
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
                                              "rope.dimension_count",
                                              "rope.freq_base",
                                              "rope.scaling.type",
                                              "rope.scaling.factor",
                                              "rope.scaling.original_context_length",
                                              "rope.scaling.finetuned",
                                              "rope.scale_linear",
                                              "tensor_data_layout",
                                              "attention.causal"};
    for (const gguf_value& value : file_.values_under(key(""))) {
      const std::string_view name = value.key().substr(architecture_.size() + 1);
      if (std::ranges::find(read_here, name) == std::end(read_here) && !value.says_no())
        value.not_computed("no such key: it is not computed here");
    }
    if (const auto causal = find("attention.causal"); causal && !causal->boolean()) causal->not_computed("true");
  }

  void read_shape() {
    model_config& c = config_;
    c.family = architecture_;
    c.hidden = size("embedding_length");
    c.layers = size("block_count", 4096);
    c.max_positions = size("context_length", std::size_t{1} << 30);
    c.n_heads = size("attention.head_count");
    c.ffn = size("feed_forward_length");
    c.n_kv_heads = size_if("attention.head_count_kv").value_or(c.n_heads);
    if (c.n_heads % c.n_kv_heads != 0)
      find("attention.head_count_kv")->refuse("a divisor of attention.head_count, " + std::to_string(c.n_heads));
    const auto head_dim = size_if("attention.key_length");
    if (!head_dim && c.hidden % c.n_heads != 0)
      find("attention.head_count")->refuse("a divisor of embedding_length, " + std::to_string(c.hidden));
    c.head_dim = head_dim.value_or(c.hidden / c.n_heads);
    if (c.head_dim % 2 != 0)
      throw error(file_.name(), "metadata: " + key("attention.key_length"), "an even number, for rotary positions",
                  std::to_string(c.head_dim));
    for (const std::string_view same : {"attention.value_length", "rope.dimension_count"})
      if (const auto value = find(same); value && value->whole_number() != c.head_dim)
        value->not_computed(std::to_string(c.head_dim) + ", the width of a head");
    const gguf_value epsilon = file_.at(key("attention.layer_norm_rms_epsilon"));
    c.rms_epsilon = positive(epsilon);
  }

  void read_rope() {
    rope_config& rope = config_.rope;
    if (const auto theta = find("rope.freq_base")) rope.theta = positive(*theta);
    const auto type = find("rope.scaling.type"), old_factor = find("rope.scale_linear"), factor = find("rope.scaling.factor");
    const std::string_view kind = type ? type->string() : old_factor && old_factor->number() != 1.0 ? "linear" : "none";
    if (kind == "linear" || kind == "yarn") {
      const gguf_value of = factor ? *factor : old_factor ? *old_factor : file_.at(key("rope.scaling.factor"));
      rope.factor = of.number();
      if (rope.factor < 1.0 || rope.factor > 1e6) of.refuse("a number from 1 to a million");
      rope.scaling = kind == "linear" ? rope_scaling::linear : rope_scaling::yarn;
    } else if (kind != "none") {
      type->not_computed("none, linear or yarn");
    }
    if (rope.scaling == rope_scaling::yarn) {
      if (rope.theta <= 1.0) find("rope.freq_base")->refuse("a number above 1 with yarn");
      rope.original_positions = size_if("rope.scaling.original_context_length", std::size_t{1} << 30).value_or(config_.max_positions);
      rope.attention_factor = yarn_scale(rope.factor);
      config_.max_positions =
          std::max(config_.max_positions, static_cast<std::size_t>(static_cast<double>(rope.original_positions) * rope.factor));
    }
    read_divisors();
  }

  /// Llama 3's files have what its scaling comes to: a number for each frequency, which it is divided by.
  void read_divisors() {
    for (const std::string_view other : {"rope_factors_long.weight", "rope_factors_short.weight"})
      if (find_tensor(parts_, other))
        throw error(file_.name(), "tensor " + std::string(other), "no such tensor", "one", error_code::unsupported);
    const stored_tensor* const t = find_tensor(parts_, "rope_freqs.weight");
    if (!t) return;
    const auto fail = [&](std::string_view expected, std::string_view found, error_code code = error_code::bad_input) {
      throw error(file_.name(), "tensor rope_freqs.weight", expected, found, code);
    };
    if (t->type != "F32") fail("F32", t->type, error_code::unsupported);
    if (t->shape != std::vector<std::uint64_t>{config_.head_dim / 2})
      fail("shape [" + std::to_string(config_.head_dim / 2) + "]", shape_text(t->shape));
    if (config_.rope.scaling == rope_scaling::yarn) fail("no such tensor beside yarn", "one", error_code::unsupported);
    for (std::size_t i = 0; i < config_.head_dim / 2; ++i) {
      config_.rope.divisors.push_back(number_at<float>(t->data.data() + 4 * i));
      if (!(std::isfinite(config_.rope.divisors.back()) && config_.rope.divisors.back() > 0)) fail("numbers above 0", "another");
    }
  }

  /// The vocabulary, and the ids that begin and end a text.
  void read_tokens() {
    constexpr std::size_t most_tokens = std::size_t{1} << 24;
    const auto tokens = file_.find("tokenizer.ggml.tokens");
    const stored_tensor* const embedding = find_tensor(parts_, "token_embd.weight");
    std::vector<std::string_view> pieces;
    if (tokens) pieces = tokens->strings();
    if (tokens && (pieces.empty() || pieces.size() > most_tokens)) tokens->refuse("1 to " + std::to_string(most_tokens) + " tokens");
    config_.vocabulary = tokens ? pieces.size() : size_if("vocab_size", most_tokens).value_or(0);
    if (config_.vocabulary == 0 && embedding && embedding->shape.size() == 2 && embedding->shape[0] <= most_tokens)
      config_.vocabulary = embedding->shape[0];

    if (const auto kind = file_.find("tokenizer.ggml.model"); kind && kind->string() != "llama" && kind->string() != "gpt2")
      kind->not_computed("llama or gpt2");
    const auto numbers_of = [&](std::string_view name) {
      const auto value = file_.find(name);
      std::vector<double> numbers;
      if (!value) return numbers;
      numbers = value->numbers();
      if (numbers.size() != config_.vocabulary) value->refuse(std::to_string(config_.vocabulary) + " numbers, one a token");
      return numbers;
    };
    numbers_of("tokenizer.ggml.scores");
    const std::vector<double> types = numbers_of("tokenizer.ggml.token_type");

    if (const auto bos = id("tokenizer.ggml.bos_token_id")) config_.bos.push_back(*bos);
    const auto end = [&](token_id id) {
      if (std::ranges::find(config_.eos, id) == config_.eos.end()) config_.eos.push_back(id);
    };
    for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
      if (const auto found = id(name)) end(*found);
    constexpr std::string_view ends[] = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>"};
    constexpr double control = 3;
    for (std::size_t i = 0; i < std::min(pieces.size(), types.size()); ++i)
      if (types[i] == control && std::ranges::find(ends, pieces[i]) != std::end(ends)) end(static_cast<token_id>(i));
  }

  /// 2^32 - 1 and -1 stand for none in some files.
  std::optional<token_id> id(std::string_view name) const {
    const auto value = file_.find(name);
    if (!value || value->number() == 4294967295.0 || value->number() == -1.0) return std::nullopt;
    return static_cast<token_id>(value->whole_number(0, config_.vocabulary - 1));
  }

  std::span<const gguf_file> parts_;
  const gguf_file& file_;  // the first, which has the metadata
  std::string_view architecture_;
  model_config config_;
};

}  // namespace detail

/// Throws `error` where a key is missing, out of its range, or asks for what is not computed.
inline model_config model_config_of(std::span<const gguf_file> parts) { return detail::gguf_config_reader(parts).read(); }

}  // namespace v0
}  // namespace lazyprune
