// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/gemma2.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("gemma2: the published config of gemma-2-2b-it") {
  using namespace lazyprune_test;
  nlohmann::json config = nlohmann::json::parse(R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
    "attn_logit_softcapping": 50.0, "bos_token_id": 2, "eos_token_id": [1, 107], "final_logit_softcapping": 30.0, "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
    "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
    "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
    "sliding_window": 4096, "vocab_size": 256000})");
  lazyprune::model_config c = config_of_json(config);
  CHECK(c.tied);
  CHECK(c.post_norms);
  CHECK(c.norms_less_one);
  CHECK(c.activation == lazyprune::gate_activation::gelu_tanh);
  CHECK(c.embedding_scale == 48.0);
  CHECK(c.attention_scale == 0.0);  // 0: the scale follows from the width of a head
  CHECK(c.attention_soft_cap == 50.0);
  CHECK(c.logit_soft_cap == 30.0);
  CHECK(c.window(0) == 4096);
  CHECK(c.window(1) == 0);
  CHECK(c.window(24) == 4096);
  config["query_pre_attn_scalar"] = 144;  // the value of the largest model, gemma-2-27b
  config.erase("attn_logit_softcapping");
  config["final_logit_softcapping"] = nullptr;
  c = config_of_json(config);
  CHECK(c.attention_scale == doctest::Approx(1.0 / 12.0).epsilon(1e-15));
  CHECK(c.attention_soft_cap == 50.0);
  CHECK(c.logit_soft_cap == 0.0);
  CHECK(said_of(config, {{"hidden_activation", "gelu"}}) == unsupported("c: hidden_activation", {"gelu_pytorch_tanh", "\"gelu\""}));
  CHECK(said_of(config, {{"use_bidirectional_attention", true}}) == unsupported("c: use_bidirectional_attention"));
  CHECK(said_of(config, {{"attn_logit_softcapping", -1}}) == at("c: attn_logit_softcapping", {", found -1"}));
  CHECK(said_of(config, {{"logit_scale", 2}}) == unsupported("c: logit_scale", {", found 2"}));
}

TEST_CASE("gemma2: GGUF files; a model with 46 layers, the largest, has an attention scale of its own") {
  using namespace lazyprune_test;
  const auto c = small_gguf("gemma2").config();
  CHECK(c.windows == window_list{4096, 0, 4096, 0});
  CHECK_FALSE(c.norms_less_one);
  CHECK(c.attention_soft_cap == 50.0);
  CHECK(c.embedding_scale == 4.0);
  CHECK(small_gguf("gemma2").real("attn_logit_softcapping", 0.0f).config().attention_soft_cap == 0.0);
  const auto largest = small_gguf("gemma2").number("block_count", 46).number("attention.key_length", 4).config();
  CHECK(largest.attention_scale == doctest::Approx(1 / std::sqrt(8.0)).epsilon(1e-15));
  CHECK(small_gguf("gemma2").number("attention.key_length", 4).config().attention_scale == 0.0);
  CHECK(small_gguf("gemma2").number("rope.dimension_count", 4).said() ==
        unsupported("metadata: gemma2.rope.dimension_count", {", found 4"}));
}
