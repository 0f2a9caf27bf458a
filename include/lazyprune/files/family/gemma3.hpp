// SPDX-License-Identifier: MIT
// Gemma 3's text models, alone (1B, 270M) or in a model of text and images (4B to 27B). Unlike Gemma 2, they have no soft cap on attention
// scores, and they normalize each head of the queries and keys. Five of every six layers have a window. These layers have a RoPE base of
// their own.
#pragma once

#include <lazyprune/files/family/detail/gemma_keys.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {
namespace gemma3_files {

inline constexpr std::string_view names[] = {"final_logit_softcapping", "query_pre_attn_scalar"};
inline constexpr std::string_view gguf_names[] = {"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa",
                                                  "final_logit_softcapping"};
inline constexpr double global_base = 1e6, local_base = 1e4;

/// In a config of transformers 4, both RoPE bases are top-level keys, and `rope_scaling` applies only to the layers without a window. In a
/// config of transformers 5, `rope_parameters` has one object for each kind of layer.
inline void read_rope(const json_value& config, model_config& c) {
  const detail::rope_objects objects(config);
  const auto& [old_style, new_style] = objects;
  if (new_style) new_style->allow_only({"full_attention", "sliding_attention"}, error_code::unsupported);
  const auto full = new_style ? new_style->find("full_attention") : old_style;
  const auto windowed = new_style ? new_style->find("sliding_attention") : std::nullopt;
  const auto base_in = [](const auto& object) { return object ? object->find("rope_theta") : std::nullopt; };
  const double theta = detail::rope_base(config, "rope_theta", base_in(full), global_base);
  const detail::rope_reader reader(config, c.max_positions, c.head_dim);
  c.rope = reader.read(full, theta);
  c.window_rope = reader.read(windowed, detail::rope_base(config, "rope_local_base_freq", base_in(windowed), local_base));
  objects.expect(reader.read(old_style, theta) == c.rope);
  for (const rope_config& rope : {c.rope, *c.window_rope})
    if (rope.scaling != rope_scaling::none && rope.scaling != rope_scaling::linear)
      objects.either()->refuse_unsupported("default or linear positions");
}

/// Returns a function that says which layers have a window: all except every nth layer.
inline auto but_every(std::size_t nth) {
  return [nth](std::size_t layer) { return (layer + 1) % nth != 0; };
}

inline void read_json(const json_value& config, model_config& c) {
  detail::read_gemma(config, c);
  c.qk_norm = true;
  c.logit_soft_cap = detail::soft_cap(config, "final_logit_softcapping", 0.0);
  const auto pattern = config.find("sliding_window_pattern");
  const std::size_t every = pattern ? detail::positions_of(*pattern) : 6;
  detail::read_windows(config, detail::sliding_window(config, 4096), but_every(every), c);
  read_rope(config, c);
}

inline void read_gguf(const gguf_keys& file, model_config& c) {
  detail::read_gemma(file, 62, c);
  c.qk_norm = true;
  c.logit_soft_cap = detail::soft_cap(file, "final_logit_softcapping", 0.0);
  if (const auto window = file.find("attention.sliding_window"); window && !window->says_no()) {
    const std::size_t size = file.size("attention.sliding_window", detail::most_positions);
    const std::size_t every = file.size_if("attention.sliding_window_pattern", detail::most_positions).value_or(6);
    detail::set_windows(size, but_every(every), c);
  }
  const auto base = file.find("rope.freq_base_swa");
  c.window_rope = rope_config{.theta = base ? detail::positive(*base) : local_base};
}

}  // namespace gemma3_files

inline constexpr model_family gemma3{
    .name = "gemma3",
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .gguf = "gemma3",
    .max_positions = 131072,
    .head_dim = 256,
    .own_kv_heads = true,
    .tied = true,
    .bos = 2,
    .eos = 1,
    .attention_bias = true,
    .keys = gemma3_files::names,
    .gguf_keys = gemma3_files::gguf_names,
    .tensors = detail::gemma_tensors,
    .wrapper_type = "gemma3",
    .wrapper_architecture = "Gemma3ForConditionalGeneration",
    .text_defaults = R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
      "num_attention_heads": 8, "num_key_value_heads": 4, "bos_token_id": 2, "eos_token_id": 1})",
    .read_json = gemma3_files::read_json,
    .read_gguf = gemma3_files::read_gguf,
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
