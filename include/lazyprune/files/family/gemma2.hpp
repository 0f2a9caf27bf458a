// SPDX-License-Identifier: MIT
// Gemma 2: GELU, norms before and after attention and feed-forward, soft caps, and a window in every other layer.
#pragma once

#include <lazyprune/files/family/detail/gemma_keys.hpp>

namespace lazyprune {
inline namespace v0 {
namespace families {
namespace gemma2_files {

inline constexpr std::string_view names[] = {"attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"};
inline constexpr std::string_view gguf_names[] = {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"};

inline bool windowed(std::size_t layer) { return layer % 2 == 0; }

inline void read_json(const json_value& config, model_config& c) {
  detail::read_gemma(config, c);
  c.attention_soft_cap = detail::soft_cap(config, "attn_logit_softcapping", 50.0);
  c.logit_soft_cap = detail::soft_cap(config, "final_logit_softcapping", 30.0);
  detail::read_windows(config, detail::sliding_window(config, 4096), windowed, c);
  detail::read_rope(config, c);
}

inline void read_gguf(const gguf_keys& file, model_config& c) {
  detail::read_gemma(file, 46, c);
  c.attention_soft_cap = detail::soft_cap(file, "attn_logit_softcapping", 50.0);
  c.logit_soft_cap = detail::soft_cap(file, "final_logit_softcapping", 30.0);
  const std::size_t window = file.size_if("attention.sliding_window", detail::most_positions).value_or(4096);
  detail::set_windows(window, windowed, c);
}

}  // namespace gemma2_files

inline constexpr model_family gemma2{
    .name = "gemma2",
    .model_type = "gemma2",
    .architecture = "Gemma2ForCausalLM",
    .gguf = "gemma2",
    .max_positions = 8192,
    .head_dim = 256,
    .own_kv_heads = true,
    .tied = true,
    .bos = 2,
    .eos = 1,
    .attention_bias = true,
    .keys = gemma2_files::names,
    .gguf_keys = gemma2_files::gguf_names,
    .tensors = detail::gemma_tensors,
    .read_json = gemma2_files::read_json,
    .read_gguf = gemma2_files::read_gguf,
};

}  // namespace families
}  // namespace v0
}  // namespace lazyprune
