// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/qwen3.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("qwen3: use_sliding_window gives a window to the layers from max_window_layers on, or to those that layer_types names") {
  using namespace lazyprune_test;
  const nlohmann::json config = nlohmann::json::parse(R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
    "max_position_embeddings": 512, "max_window_layers": 3, "model_type": "qwen3", "num_attention_heads": 4, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "sliding_window": 16, "use_sliding_window": false, "vocab_size": 100})");
  CHECK(config_of_json(config).windows.empty());
  const auto with = [&](nlohmann::json patch) {
    nlohmann::json other = config;
    other.merge_patch(patch);
    return config_of_json(other);
  };
  CHECK(with({{"use_sliding_window", true}}).windows == window_list{0, 0, 0, 16});
  CHECK(with({{"use_sliding_window", true}, {"max_window_layers", 4}}).windows.empty());
  CHECK(with({{"use_sliding_window", true}, {"max_window_layers", 0}}).windows == window_list(4, 16));
  const nlohmann::json types{"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  CHECK(with({{"use_sliding_window", true}, {"layer_types", types}}).windows == window_list{16, 0, 0, 16});
  CHECK(said_of(config, {{"layer_types", types}}) == at("c: layer_types[0]", {"full_attention", "\"sliding_attention\""}));
  CHECK(said_of(config, {{"use_mrope", true}}) == unsupported("c: use_mrope"));
}

TEST_CASE("qwen3: a model from a GGUF file has norms of q and k, unlike one of qwen2") {
  CHECK(lazyprune_test::small_gguf("qwen3").config().qk_norm);
  CHECK_FALSE(lazyprune_test::small_gguf("qwen2").config().qk_norm);
}
