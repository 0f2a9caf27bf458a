// SPDX-License-Identifier: MIT
// Llama 1 to 3, and the many models with the same architecture.
#pragma once

#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/family/model_family.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {

inline constexpr model_family llama{
    .name = "llama",
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .gguf = "llama",
    .max_positions = 2048,
    .bos = 1,
    .eos = 2,
    .attention_bias = true,
    .mlp_bias = true,
    .interleaved = true,
    .read_json =
        [](const json_value& config, model_config& c) {
          detail::expect_activation(config, "hidden_act", "silu");
          detail::refuse_partial_rotation(config);
          detail::refuse_windows(config, c);
          detail::read_rope(config, c);
        },
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
