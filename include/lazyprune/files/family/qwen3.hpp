// SPDX-License-Identifier: MIT
// Qwen3: like Llama, with norms on the heads of q and k. If use_sliding_window is true, the layers from max_window_layers on have a sliding
// window.
#pragma once

#include <lazyprune/files/family/detail/qwen_keys.hpp>
#include <lazyprune/files/family/gguf_keys.hpp>
#include <lazyprune/files/family/model_family.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {

inline constexpr model_family qwen3{
    .name = "qwen3",
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .gguf = "qwen3",
    .max_positions = 32768,
    .head_dim = 128,
    .own_kv_heads = true,
    .attention_bias = true,
    .read_json =
        [](const json_value& config, model_config& c) {
          detail::read_qwen(config, c);
          c.qk_norm = true;
        },
    .read_gguf = [](const gguf_keys&, model_config& c) { c.qk_norm = true; },
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
