// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/mistral.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("mistral: every layer has the window sliding_window; if the key is missing, it is 4096; null means no window") {
  using namespace lazyprune_test;
  const nlohmann::json config = nlohmann::json::parse(R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
    "num_attention_heads": 32, "num_hidden_layers": 4, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "sliding_window": 16, "vocab_size": 32000})");
  CHECK(config_of_json(config).windows == window_list(4, 16));
  nlohmann::json other = config;
  other.erase("sliding_window");
  CHECK(config_of_json(other).windows == window_list(4, 4096));
  other["sliding_window"] = nullptr;
  CHECK(config_of_json(other).windows.empty());
  CHECK(said_of(config, {{"sliding_window", 0}}) == at("c: sliding_window", {"1073741824", ", found 0"}));
  CHECK(said_of(config, {{"layer_types", {"full_attention"}}}) == at("c: layer_types"));
  CHECK(said_of(config, {{"layer_types", {"full_attention", "full_attention", "chunked_attention", "full_attention"}}}) ==
        unsupported("c: layer_types[2]", {"full_attention", "sliding_attention", "\"chunked_attention\""}));
  CHECK(said_of(config, {{"attention_bias", true}}) == unsupported("c: attention_bias"));
  CHECK(lazyprune::families::mistral.gguf.empty());  // a GGUF file of a Mistral has the architecture llama
}

TEST_CASE("mistral: the published config of Mistral-Small-3.1-24B-Instruct-2503, a model of text and images") {
  using namespace lazyprune_test;
  const nlohmann::json config = nlohmann::json::parse(R"({"architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10,
    "model_type": "mistral3", "multimodal_projector_bias": false, "projector_hidden_act": "gelu", "spatial_merge_size": 2,
    "text_config": {"attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 32768,
      "max_position_embeddings": 131072, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 40,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000000.0, "sliding_window": null, "vocab_size": 131072},
    "vision_config": {"hidden_size": 1024, "model_type": "pixtral"}, "vision_feature_layer": -1})");
  nlohmann::json alone = config["text_config"];
  alone.update({{"bos_token_id", 1}, {"eos_token_id", 2}});
  const auto c = config_of_json(config);
  CHECK(c == config_of_json(alone));
  CHECK(c.family == "mistral");
  CHECK(c.rope.theta == 1e9);
  CHECK(c.windows.empty());
  CHECK_FALSE(c.tied);
  CHECK(said_of(config, {{"text_config", {{"model_type", "ministral3"}}}}) == unsupported("c: text_config.model_type", {"\"ministral3\""}));
  CHECK(said_of(config, {{"text_config", nullptr}}) == at("c", {"\"text_config\""}));
}
