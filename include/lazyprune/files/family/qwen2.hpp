// SPDX-License-Identifier: MIT
// Qwen2 and Qwen2.5: like Llama, with biases of q, k and v. If use_sliding_window is true, the layers from max_window_layers on have a
// sliding window.
#pragma once

#include <lazyprune/files/family/detail/qwen_keys.hpp>
#include <lazyprune/files/family/gguf_keys.hpp>
#include <lazyprune/files/family/model_family.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {

inline constexpr model_family qwen2{
    .name = "qwen2",
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .gguf = "qwen2",
    .max_positions = 32768,
    .own_kv_heads = true,
    .read_json =
        [](const json_value& config, model_config& c) {
          detail::read_qwen(config, c);
          c.qkv_bias = true;
        },
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
