// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/gemma3.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

using namespace lazyprune_test;
using lazyprune::rope_scaling;

namespace {

const nlohmann::json gemma = nlohmann::json::parse(R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
  "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 106],
  "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
  "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
  "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
  "vocab_size": 262144})");

}  // namespace

TEST_CASE("gemma3: the published config of gemma-3-1b-it") {
  const auto c = config_of_json(gemma);
  CHECK(c.family == "gemma3");
  CHECK(c.qk_norm);
  CHECK(c.rope.theta == 1e6);
  CHECK(c.window_rope->theta == 1e4);
  CHECK(c.window(4) == 512);
  CHECK(c.window(5) == 0);
  CHECK(c.window(24) == 512);
  CHECK(c.embedding_scale == doctest::Approx(std::sqrt(1152.0)).epsilon(1e-7));
  CHECK(c.logit_soft_cap == 0.0);
}

TEST_CASE("gemma3: rotary positions in the keys of transformers 4 and 5") {
  nlohmann::json config = gemma;
  config["rope_scaling"] = {{"factor", 8.0}, {"rope_type", "linear"}};
  const auto old_style = config_of_json(config);
  CHECK(old_style.rope.scaling == rope_scaling::linear);
  CHECK(old_style.window_rope->scaling == rope_scaling::none);
  for (const char* key : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) config.erase(key);
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
                               {"sliding_attention", {{"rope_type", "default"}}}};
  CHECK(config_of_json(config) == old_style);
  config["rope_scaling"] = {{"factor", 8.0}, {"rope_type", "linear"}};  // both styles in one file, and they agree
  CHECK(config_of_json(config) == old_style);
  CHECK(said_of(config, {{"rope_scaling", {{"factor", 4.0}}}}) == at("c: rope_scaling", {"rope_parameters"}));
  CHECK(said_of(config, {{"rope_theta", 5.0}}) == at("c: rope_parameters.full_attention.rope_theta", {"1000000.0"}));
  CHECK(said_of(gemma, {{"rope_parameters", {{"rope_type", "default"}}}}) == unsupported("c: rope_parameters.rope_type", {"\"default\""}));
  CHECK(said_of(gemma, {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8.0}}}}) == unsupported("c: rope_scaling"));
}

TEST_CASE("gemma3: a cap on attention is refused; a model of text and images must have text_config") {
  CHECK(said_of(gemma, {{"attn_logit_softcapping", 50.0}}) == unsupported("c: attn_logit_softcapping", {"50.0"}));
  CHECK(said_of(gemma, {{"model_type", "gemma3"}, {"architectures", nullptr}}) == at("c", {"\"text_config\""}));
  CHECK(said_of(gemma, {{"architectures", {"Gemma3ForConditionalGeneration"}}}) ==
        unsupported("c: architectures[0]", {"\"Gemma3ForConditionalGeneration\""}));
}

TEST_CASE("gemma3: in the published configs of gemma-3-4b-it and 27b-it, keys missing in text_config have transformers' defaults") {
  const auto published = nlohmann::json::parse(R"({"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
    "eos_token_id": [1, 106], "image_token_index": 262144, "mm_tokens_per_image": 256, "model_type": "gemma3",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model", "num_attention_heads": 16}})");
  nlohmann::json written_out = gemma;
  written_out.merge_patch({{"hidden_size", 2560},
                           {"intermediate_size", 10240},
                           {"num_hidden_layers", 34},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", 4},
                           {"vocab_size", 262208},
                           {"sliding_window", 1024},
                           {"max_position_embeddings", 131072},
                           {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}});
  const auto c = config_of_json(published);
  CHECK(c == config_of_json(written_out));
  CHECK(c.rope.theta == 1e6);
  CHECK(c.window(5) == 0);
  CHECK(c.tied);
  CHECK(c.bos == std::vector<lazyprune::token_id>{2});

  nlohmann::json largest = published;
  largest["text_config"].merge_patch(
      {{"head_dim", 128}, {"num_attention_heads", 32}, {"num_key_value_heads", 16}, {"query_pre_attn_scalar", 168}, {"hidden_size", 5376}});
  CHECK(config_of_json(largest).head_dim == 128);
  CHECK(config_of_json(largest).attention_scale == doctest::Approx(1.0 / std::sqrt(168.0)));
  CHECK(said_of(published, {{"text_config", {{"num_hidden_layers", 0}}}}) == at("c: text_config.num_hidden_layers", {", found 0"}));
  CHECK(said_of(published, {{"text_config", {{"model_type", "gemma3n_text"}}}}) == unsupported("c: text_config.model_type"));
  CHECK(said_of(published, {{"quantization_config", {{"bits", 4}}}}) == unsupported("c: quantization_config"));
  CHECK(said_of(published, {{"architectures", {"Gemma3ForCausalLM"}}}) == unsupported("c: architectures[0]"));
}

TEST_CASE("gemma3: GGUF files; by default, five layers of six have the window") {
  const auto file = [] { return small_gguf("gemma3").number("attention.sliding_window", 16); };
  CHECK(file().config().windows == window_list(4, 16));
  CHECK(file().number("attention.sliding_window_pattern", 2).config().windows == window_list{16, 0, 16, 0});
  CHECK(small_gguf("gemma3").config().windows.empty());
  CHECK(file().config().window_rope->theta == 1e4);
  CHECK(file().real("rope.freq_base_swa", 500.0f).config().window_rope->theta == 500.0);
  CHECK(file().real("attn_logit_softcapping", 50.0f).said() == unsupported("metadata: gemma3.attn_logit_softcapping", {", found 50"}));
}
