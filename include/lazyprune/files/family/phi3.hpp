// SPDX-License-Identifier: MIT
// Phi 3, 3.5 and 4: like Llama, but one tensor stores q, k and v, and another stores gate and up. Versions for long sequences have
// LongRoPE. Phi-4-mini rotates only a part of each head. The first versions have a sliding window in every layer.
#pragma once

#include <optional>

#include <lazyprune/files/family/gguf_keys.hpp>
#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/family/model_family.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {
namespace phi3_files {

inline constexpr std::string_view gguf_names[] = {"attention.sliding_window", "rope.scaling.attn_factor"};
inline constexpr tensor_name tensors[] = {{"self_attn.qkv_proj", "attn_qkv"}, {"mlp.gate_up_proj", "ffn_up"}};

inline void read_json(const json_value& config, model_config& c) {
  detail::expect_activation(config, "hidden_act", "silu");
  detail::refuse_flag(config, "attention_bias");
  c.fused = true;
  detail::read_windows(
      config, detail::sliding_window(config, 0), [](std::size_t) { return true; }, c);

  const detail::rope_objects objects(config);
  const auto part_of = [&](const std::optional<json_value>& object) {
    const auto inside = object ? object->find("partial_rotary_factor") : std::nullopt;
    return inside ? inside : config.find("partial_rotary_factor");
  };
  const auto part = part_of(objects.either()), old_part = part_of(objects.old_style);
  if (part) detail::read_partial_rotation(*part, c);
  objects.expect((old_part ? old_part->number() : 1.0) == (part ? part->number() : 1.0));
  detail::read_rope(config, c, 4096);
  if (c.rope.scaling != rope_scaling::none && c.rope.scaling != rope_scaling::longrope)
    (objects.either()->find("rope_type") ? objects.either()->at("rope_type") : objects.either()->at("type"))
        .refuse_unsupported("default or longrope");
}

inline void read_gguf(const gguf_keys& file, model_config& c) {
  c.fused = true;
  // Older files lack this key and are refused: their models have a window, too, but the files do not store its size.
  const auto window = file.at("attention.sliding_window").whole_number(0, detail::most_positions);
  if (window > 0) c.windows.assign(c.layers, static_cast<std::size_t>(window));
  if (const auto factor = file.find("rope.scaling.attn_factor")) {
    if (c.rope.scaling == rope_scaling::longrope)
      c.rope.attention_factor = detail::positive(*factor);
    else if (factor->number() != 1.0)
      factor->refuse_unsupported("1, or tensors of LongRoPE");
  }
}

}  // namespace phi3_files

inline constexpr model_family phi3{
    .name = "phi3",
    .model_type = "phi3",
    .architecture = "Phi3ForCausalLM",
    .gguf = "phi3",
    .max_positions = 4096,
    .rms_epsilon = 1e-5,
    .bos = 1,
    .eos = 32000,
    .partial_rotation = true,
    .gguf_keys = phi3_files::gguf_names,
    .tensors = phi3_files::tensors,
    .read_json = phi3_files::read_json,
    .read_gguf = phi3_files::read_gguf,
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
