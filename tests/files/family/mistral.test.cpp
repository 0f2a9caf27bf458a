// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/mistral.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("mistral: a window in every layer, 4096 where the key is missing, none where it is null") {
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
  CHECK(lazyprune::families::mistral.gguf.empty());  // it is a llama there
}
