// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/llama.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("llama: the published config of xgen-7b-8k-base") {
  using namespace lazyprune_test;
  const nlohmann::json xgen = nlohmann::json::parse(R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 50256, "eos_token_id": 50256,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 8192,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "pad_token_id": 0, "rms_norm_eps": 1e-06,
    "tie_word_embeddings": false, "torch_dtype": "float32", "use_cache": true, "vocab_size": 51200})");
  const lazyprune::model_config c = config_of_json(xgen);
  CHECK(c.n_kv_heads == 32);
  CHECK(c.head_dim == 128);
  CHECK(c.max_positions == 8192);
  CHECK(c.rope == lazyprune::rope_config{});
  CHECK(c.windows.empty());
  CHECK(said_of(xgen, {{"sliding_window", 4096}}) == unsupported("c: sliding_window", {"4096"}));
  CHECK(said_of(xgen, {{"use_sliding_window", true}, {"sliding_window", 4096}}) == unsupported("c: sliding_window", {"4096"}));
  for (const auto& nothing : {nlohmann::json(8192), nlohmann::json(nullptr)})  // such a window reaches every token
    CHECK(said_of(xgen, {{"use_sliding_window", true}, {"sliding_window", nothing}}) == "no error");
}
