// SPDX-License-Identifier: MIT
#include <lazyprune/files/gguf_config.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/files/config_json.hpp>

#include <files/gguf_writer.hpp>
#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::gguf_file;
using lazyprune::model_config;
using lazyprune::model_config_of;
using lazyprune::rope_scaling;
using ids = std::vector<lazyprune::token_id>;

namespace {

/// The metadata of a small llama, by key. Tests change single keys.
struct small_llama {
  std::map<std::string, std::string> keys;
  std::vector<gguf_tensor> tensors{{"token_embd.weight", {4, 6}, 0, std::string(96, '\0')}};

  small_llama() {
    text("general.architecture", "llama");
    number("embedding_length", 4);
    number("block_count", 2);
    number("context_length", 64);
    number("feed_forward_length", 8);
    number("attention.head_count", 2);
    put("llama.attention.layer_norm_rms_epsilon", gguf_key("llama.attention.layer_norm_rms_epsilon", 1e-5f));
  }
  void put(const std::string& key, const std::string& bytes) { keys[key] = bytes; }
  void text(const std::string& key, const char* value) { put(key, gguf_key(key, value)); }
  void number(const std::string& key, std::uint32_t value) { put("llama." + key, gguf_key("llama." + key, value)); }
  void real(const std::string& key, float value) { put("llama." + key, gguf_key("llama." + key, value)); }
  void tokens(const std::vector<std::string>& pieces, const std::vector<std::int32_t>& types) {
    std::string all, kinds;
    for (const std::string& piece : pieces) all += gguf_string(piece);
    for (const std::int32_t type : types) kinds += bytes_of_number(type);
    put("tokenizer.ggml.tokens", gguf_key("tokenizer.ggml.tokens", 9, gguf_array(8, pieces.size(), all)));
    put("tokenizer.ggml.token_type", gguf_key("tokenizer.ggml.token_type", 9, gguf_array(5, types.size(), kinds)));
  }

  model_config config() const {
    std::vector<std::string> all;
    for (const auto& [key, bytes] : keys) all.push_back(bytes);
    const temporary_folder folder;
    std::vector<gguf_file> parts;
    parts.emplace_back(lazyprune::mapped_file(folder.write("f.gguf", gguf_model(all, tensors))));
    return model_config_of(parts);
  }
  fault said() const {
    return error_of([&] { config(); }).after("f.gguf: ");
  }
};

template <class Change>
fault said_after(Change change) {
  small_llama model;
  change(model);
  return model.said();
}
template <class Change>
model_config config_after(Change change) {
  small_llama model;
  change(model);
  return model.config();
}

}  // namespace

TEST_CASE("the GGUF names of tensors follow from Hugging Face's names") {
  using lazyprune::gguf_name_of;
  CHECK(gguf_name_of("model.embed_tokens.weight") == "token_embd.weight");
  CHECK(gguf_name_of("model.norm.weight") == "output_norm.weight");
  CHECK(gguf_name_of("lm_head.weight") == "output.weight");
  CHECK(gguf_name_of("model.layers.12.self_attn.q_proj.bias") == "blk.12.attn_q.bias");
  CHECK(gguf_name_of("model.layers.0.post_attention_layernorm.weight") == "blk.0.ffn_norm.weight");
  constexpr lazyprune::tensor_name own[] = {{"post_attention_layernorm", "post_attention_norm"}};
  CHECK(gguf_name_of("model.layers.0.post_attention_layernorm.weight", own) == "blk.0.post_attention_norm.weight");
  CHECK(gguf_name_of("model.layers.0.mlp.up_proj.weight", own) == "blk.0.ffn_up.weight");
  for (const char* none : {"", "model", "model.layers.0", "model.layers.0.self_attn.rotary_emb.inv_freq", "blk.0.attn_q.weight"})
    CHECK(gguf_name_of(none).empty());
}

TEST_CASE("the config of a small llama") {
  const model_config c = small_llama().config();
  CHECK(c.family == "llama");
  CHECK(c.vocabulary == 6);
  CHECK(c.hidden == 4);
  CHECK(c.layers == 2);
  CHECK(c.n_heads == 2);
  CHECK(c.n_kv_heads == 2);
  CHECK(c.head_dim == 2);
  CHECK(c.ffn == 8);
  CHECK(c.max_positions == 64);
  CHECK(c.rms_epsilon == 1e-5);
  CHECK(c.rope == lazyprune::rope_config{});
  CHECK(c.tied);
  CHECK_FALSE(c.qkv_bias);
  CHECK(c.bos.empty());
  CHECK(c.eos.empty());
}

TEST_CASE("rotary scalings are read") {
  const model_config linear = config_after([](small_llama& m) {
    m.text("llama.rope.scaling.type", "linear");
    m.real("rope.scaling.factor", 4);
  });
  CHECK(linear.rope.scaling == rope_scaling::linear);
  CHECK(linear.rope.factor == 4);
  CHECK(config_after([](small_llama& m) { m.real("rope.scale_linear", 2); }).rope.factor == 2);
  const auto alone = [](float factor) { return config_after([=](small_llama& m) { m.real("rope.scaling.factor", factor); }).rope; };
  CHECK(alone(4) == linear.rope);  // a factor without a type means linear
  for (const float none : {0.0f, 1.0f}) {
    CHECK(alone(none) == lazyprune::rope_config{});
    CHECK(config_after([=](small_llama& m) {
            m.text("llama.rope.scaling.type", "linear");
            m.real("rope.scaling.factor", none);
          }).rope == lazyprune::rope_config{});
  }
  CHECK(said_after([](small_llama& m) { m.real("rope.scaling.factor", 0.5f); }) == at("metadata: llama.rope.scaling.factor", {"0.5"}));
  const model_config yarn = config_after([](small_llama& m) {
    m.text("llama.rope.scaling.type", "yarn");
    m.real("rope.scaling.factor", 4);
    m.number("rope.scaling.original_context_length", 32);
  });
  CHECK(yarn.rope.scaling == rope_scaling::yarn);
  CHECK(yarn.rope.original_positions == 32);
  CHECK(yarn.rope.attention_factor == lazyprune::detail::yarn_scale(4));
  CHECK(yarn.max_positions == 128);
  const auto divided = [](std::uint64_t size, float by) {
    return [=](small_llama& m) {
      std::string numbers;
      for (std::uint64_t i = 0; i < size; ++i) numbers += bytes_of_number(by);
      m.tensors.push_back({"rope_freqs.weight", {size}, 0, numbers});
    };
  };
  CHECK(config_after(divided(1, 8)).rope.divisors == std::vector<double>{8});
  CHECK(said_after(divided(2, 8)) == at("tensor rope_freqs.weight", {"[1]", "[2]"}));
  CHECK(said_after(divided(1, 0)) == at("tensor rope_freqs.weight"));
  CHECK(said_after([](small_llama& m) { m.text("llama.rope.scaling.type", "longrope"); }) ==
        at("tensor rope_factors_short.weight", {"LongRoPE"}));
  CHECK(said_after([](small_llama& m) { m.text("llama.rope.scaling.type", "dynamic"); }) ==
        unsupported("metadata: llama.rope.scaling.type", {"\"dynamic\""}));
  CHECK(said_after([](small_llama& m) { m.text("llama.rope.scaling.type", "linear"); }) ==
        at("metadata", {"\"llama.rope.scaling.factor\""}));
  CHECK(said_after([](small_llama& m) { m.real("rope.freq_base", 0); }) == at("metadata: llama.rope.freq_base", {", found 0"}));
  CHECK(said_after([](small_llama& m) { m.number("rope.dimension_count", 1); }) ==
        unsupported("metadata: llama.rope.dimension_count", {", found 1"}));
}

TEST_CASE("EOS tokens are named by three keys; control and user-defined tokens with known texts are also EOS tokens") {
  const std::vector<std::string> pieces{"<s>", "</s>", "<|im_end|>", "<|eot_id|>", "x", "<|end|>"};
  const auto with = [&](const std::vector<std::pair<std::string, std::uint32_t>>& named) {
    return config_after([&](small_llama& m) {
      m.tokens(pieces, {3, 3, 3, 1, 1, 3});
      for (const auto& [key, id] : named) m.put("tokenizer.ggml." + key, gguf_key("tokenizer.ggml." + key, id));
    });
  };
  CHECK(with({}).eos == ids{2, 5});  // <|eot_id|> is not a control token here
  CHECK(config_after([&](small_llama& m) { m.tokens(pieces, {3, 3, 4, 1, 4, 4}); }).eos == ids{2, 5});  // user-defined
  CHECK(with({{"bos_token_id", 0}}).bos == ids{0});
  CHECK(with({{"bos_token_id", ~0u}}).bos.empty());
  CHECK(with({{"eos_token_id", 1}, {"eot_token_id", 2}, {"eom_token_id", 4}}).eos == ids{1, 2, 4, 5});
  CHECK(error_of([&] {
          with({{"bos_token_id", 6}});
        }).ends_with("tokenizer.ggml.bos_token_id: expected a whole number from 0 to 5, found 6"));
}

TEST_CASE("unsupported keys are refused by name") {
  CHECK(said_after([](small_llama& m) { m.text("general.architecture", "gemma4"); }) ==
        unsupported("metadata: general.architecture", {"llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "\"gemma4\""}));
  CHECK(said_after([](small_llama& m) { m.number("attention.sliding_window", 16); }) ==
        unsupported("metadata: llama.attention.sliding_window", {"16"}));
  CHECK(said_after([](small_llama& m) { m.number("expert_count", 0); }) == "no error");  // 0 means no experts
  CHECK(said_after([](small_llama& m) { m.number("expert_count", 8); }) == unsupported("metadata: llama.expert_count"));
  CHECK(said_after([](small_llama& m) { m.text("general.type", "adapter"); }) == unsupported("metadata: general.type", {"\"adapter\""}));
  CHECK(said_after([](small_llama& m) { m.text("tokenizer.ggml.model", "bert"); }) ==
        unsupported("metadata: tokenizer.ggml.model", {"\"bert\""}));
}

TEST_CASE("a key whose value changes nothing is accepted") {
  const model_config plain = small_llama().config();
  const auto same = [&](auto change) { return config_after(change) == plain; };
  for (const char* factor :
       {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "logit_scale", "embedding_scale", "residual_scale"}) {
    CAPTURE(factor);
    CHECK(same([&](small_llama& m) { m.real(factor, 1); }));
    CHECK(said_after([&](small_llama& m) { m.real(factor, 2); }) == unsupported("metadata: llama." + std::string(factor), {", found 2"}));
  }
  const std::pair<const char*, float> keys[] = {{"rope.scaling.yarn_beta_fast", 16},
                                                {"rope.scaling.yarn_beta_slow", 2},
                                                {"rope.scaling.yarn_log_multiplier", 0.5f},
                                                {"rope.scaling.yarn_ext_factor", 1}};
  const auto yarn = [](small_llama& m) {
    m.text("llama.rope.scaling.type", "yarn");
    m.real("rope.scaling.factor", 4);
  };
  for (const auto& key : keys) {
    CAPTURE(key.first);
    CHECK(same([&](small_llama& m) { m.real(key.first, key.second); }));
    const fault with_yarn = said_after([&](small_llama& m) {
      yarn(m);
      m.real(key.first, key.second);
    });
    CHECK((with_yarn == "no error") == (std::string(key.first) == "rope.scaling.yarn_ext_factor"));
    // 0 is not what llama.cpp computes without the key, except for the logarithm's factor.
    const fault with_zero = said_after([&](small_llama& m) {
      yarn(m);
      m.real(key.first, 0);
    });
    CHECK((with_zero == "no error") == (std::string(key.first) == "rope.scaling.yarn_log_multiplier"));
    CHECK(same([&](small_llama& m) { m.real(key.first, 0); }));
  }
  CHECK(said_after([](small_llama& m) { m.real("rope.scaling.attn_factor", 0); }) ==
        unsupported("metadata: llama.rope.scaling.attn_factor", {", found 0"}));
  CHECK(config_after([&](small_llama& m) {
          yarn(m);
          m.real("rope.scaling.yarn_beta_fast", 32);
          m.real("rope.scaling.yarn_beta_slow", 1);
          m.real("rope.scaling.yarn_ext_factor", -1);
        }) == config_after(yarn));
  CHECK(same([](small_llama& m) {
    m.real("attention.scale", 0.70710678f);  // 1 / sqrt(2), the default for a head width of 2
    m.number("attention.sliding_window", 64);
    m.real("attention.layer_norm_epsilon", 1e-5f);
    m.number("expert_used_count", 2);  // there are no experts
    m.number("rope.dimension_count_swa", 2);
  }));
  CHECK(said_after([](small_llama& m) { m.real("attention.scale", 0.5f); }) == unsupported("metadata: llama.attention.scale", {"0.5"}));
  CHECK(said_after([](small_llama& m) { m.number("attention.key_length_swa", 4); }) ==
        unsupported("metadata: llama.attention.key_length_swa", {", found 4"}));
}

TEST_CASE("a number for each layer is read as one number if all are equal") {
  const auto each = [](const std::string& key, const std::vector<std::uint32_t>& values) {
    return [=](small_llama& m) {
      std::string bytes;
      for (const std::uint32_t value : values) bytes += bytes_of_number(value);
      m.put("llama." + key, gguf_key("llama." + key, 9, gguf_array(4, values.size(), bytes)));
    };
  };
  const model_config plain = config_after([](small_llama& m) { m.number("attention.head_count_kv", 1); });
  CHECK(config_after(each("attention.head_count_kv", {1, 1})) == plain);
  CHECK(config_after(each("attention.head_count", {2, 2})) == small_llama().config());
  CHECK(config_after(each("feed_forward_length", {8, 8})) == small_llama().config());
  CHECK(config_after(each("expert_count", {0, 0})) == small_llama().config());
  CHECK(said_after(each("feed_forward_length", {8, 9})) == at("metadata: llama.feed_forward_length", {"2", "u32"}));
  CHECK(said_after(each("feed_forward_length", {8, 8, 8})) == at("metadata: llama.feed_forward_length", {"3", "u32"}));
  CHECK(said_after(each("feed_forward_length", {})) == at("metadata: llama.feed_forward_length", {"0", "u32"}));
  CHECK(said_after(each("block_count", {2, 2})) == at("metadata: llama.block_count", {"2", "u32"}));
}

TEST_CASE("contradicting numbers are refused") {
  CHECK(said_after([](small_llama& m) { m.number("attention.head_count", 3); }) ==
        at("metadata: llama.attention.head_count", {"embedding_length", ", found 3"}));
  CHECK(said_after([](small_llama& m) { m.number("attention.head_count_kv", 0); }) ==
        at("metadata: llama.attention.head_count_kv", {"1048576", ", found 0"}));
  CHECK(said_after([](small_llama& m) {
          m.number("attention.head_count", 4);
          m.number("attention.head_count_kv", 3);
        }) == at("metadata: llama.attention.head_count_kv", {"head_count", ", found 3"}));
  CHECK(said_after([](small_llama& m) { m.number("block_count", ~0u); }) == at("metadata: llama.block_count", {"4096", "4294967295"}));
  CHECK(said_after([](small_llama& m) { m.number("attention.key_length", 3); }) ==
        at("metadata: llama.attention.key_length", {", found 3"}));
  CHECK(said_after([](small_llama& m) { m.keys.erase("llama.block_count"); }) == at("metadata", {"\"llama.block_count\""}));
  CHECK(said_after([](small_llama& m) { m.tokens({"a", "b"}, {1}); }) == at("metadata: tokenizer.ggml.token_type"));
}

TEST_CASE("the config of every GGUF model equals that of the same model as a folder" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  for (const std::string name :
       {"llama-f32", "llama-q4_k_m", "mistral-q4_k_m", "llama3-q4_k_m", "qwen2-q8_0", "qwen3-q4_k_m", "gemma3-q4_k_m"}) {
    CAPTURE(name);
    const std::string family = name.substr(0, name.find('-'));
    model_config expected =
        model_config_of(lazyprune::json_value::parse(read_text(folder / family / "config.json"), "config.json", 1 << 20));
    std::vector<gguf_file> parts;
    parts.emplace_back(lazyprune::mapped_file(folder / (name + ".gguf")));
    const model_config config = model_config_of(parts);
    if (family == "mistral") expected.family = "llama";  // a GGUF file of a Mistral has the architecture llama
    if (family == "llama3") {                            // GGUF files store the scaling as divisors
      CHECK(config.rope.divisors.size() == expected.head_dim / 2);
      expected.rope = {.theta = expected.rope.theta, .divisors = config.rope.divisors};
    }
    if (family == "gemma3") expected.norms_less_one = false;  // GGUF files store the weight w of a norm as w
    for (const lazyprune::token_id id : config.eos)           // a folder lists further EOS tokens in other files than config.json
      if (std::ranges::find(expected.eos, id) == expected.eos.end()) expected.eos.push_back(id);
    CHECK(config == expected);
  }
}

TEST_CASE("malformed files from others: files without a usable config are refused, unless only a tensor's shape is wrong" NEEDS("data")) {
  const auto folder = test_data("gguf/malformed");
  if (folder.empty()) return;
  std::size_t refused = 0;
  for (const auto& entry : nlohmann::json::parse(read_text(folder / "index.json"))) {
    const std::string name = entry.at("file"), refuse = entry.at("refuse");
    CAPTURE(name);
    const std::string said = error_of([&] { model_config_of(lazyprune::open_gguf(folder / name)); });
    CAPTURE(said);
    if (refuse == "file") CHECK(said != "no error");
    if (refuse == "no") CHECK(said == "no error");
    if (refuse == "model" && !name.starts_with("tensor-") && name != "dims-zero.gguf") {
      CHECK(said != "no error");
      ++refused;
    }
  }
  CHECK(refused > 15);
}
