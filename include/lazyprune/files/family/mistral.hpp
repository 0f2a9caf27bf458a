// SPDX-License-Identifier: MIT
// Mistral: a llama, in its first versions with a sliding window in every layer. In GGUF files it is one, and its window is not kept there:
// such a file is computed as it says, without one.
#pragma once

#include <lazyprune/files/family/json_keys.hpp>
#include <lazyprune/files/family/model_family.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {

inline constexpr model_family mistral{
    .name = "mistral",
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .max_positions = 131072,
    .own_kv_heads = true,
    .read_json =
        [](const json_value& config, model_config& c) {
          detail::expect_activation(config, "hidden_act", "silu");
          detail::refuse_flag(config, "attention_bias");
          detail::refuse_partial_rotation(config);
          detail::read_windows(
              config, detail::sliding_window(config, 4096), [](std::size_t) { return true; }, c);
          detail::read_rope(config, c);
        },
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
