// SPDX-License-Identifier: MIT
// Mistral: like Llama. Its first versions have a sliding window in every layer. GGUF files call the architecture `llama` and do not store
// the window. A model from such a file is computed without a window. Mistral Small 3.1 and 3.2 are models of text and images that contain a
// Mistral text model.
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
    .bos = 1,
    .eos = 2,
    .wrapper_type = "mistral3",
    .wrapper_architecture = "Mistral3ForConditionalGeneration",
    .text_defaults = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "bos_token_id": 1, "eos_token_id": 2})",
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
