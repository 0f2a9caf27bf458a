// SPDX-License-Identifier: MIT
#include <lazyprune/files/config_json.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::json_value;
using lazyprune::model_config;
using lazyprune::rope_scaling;

namespace {

const std::string llama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 100, "hidden_size": 64,
  "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 512})";

/// Returns `base` after this merge patch (RFC 7396). The patch has the changed keys, and null for each key to remove.
std::string config_with(const std::string& patch, const std::string& base = llama) {
  nlohmann::json config = nlohmann::json::parse(base);
  config.merge_patch(nlohmann::json::parse(patch));
  return config.dump();
}
/// Returns the Llama config with the names of another family, after this patch.
std::string family(const std::string& name, const std::string& architecture, const std::string& patch = "{}") {
  return config_with(patch, config_with(R"({"model_type": ")" + name + R"(", "architectures": [")" + architecture + R"("]})"));
}

model_config read(const std::string& text) { return model_config_of(json_value::parse(text, "c", 1 << 20)); }
fault refused(const std::string& text) {
  return error_of([&] { read(text); });
}
fault refused_with(const std::string& patch) { return refused(config_with(patch)); }

}  // namespace

TEST_CASE("a plain Llama has transformers' defaults for missing keys") {
  const model_config c = read(llama);
  CHECK(c.family == "llama");
  CHECK(c.vocabulary == 100);
  CHECK(c.hidden == 64);
  CHECK(c.layers == 3);
  CHECK(c.n_heads == 8);
  CHECK(c.n_kv_heads == 2);
  CHECK(c.head_dim == 8);
  CHECK(c.ffn == 96);
  CHECK(c.max_positions == 512);
  CHECK(c.rms_epsilon == 1e-6);
  CHECK(c.rope == lazyprune::rope_config{});
  CHECK_FALSE(c.tied);
  CHECK_FALSE(c.qkv_bias);
  CHECK_FALSE(c.output_bias);
  CHECK_FALSE(c.mlp_bias);
  CHECK_FALSE(c.qk_norm);
  using ids = std::vector<lazyprune::token_id>;
  CHECK(c.bos == ids{1});
  CHECK(c.eos == ids{2});
  CHECK(read(llama.substr(0, llama.size() - 1) + R"(, "eos_token_id": null})").eos.empty());  // null means none
  CHECK(read(config_with(R"({"vocab_size": 2})")).eos.empty());  // the default would be outside of the vocabulary
  CHECK(read(config_with(R"({"num_key_value_heads": null, "max_position_embeddings": null, "architectures": null})")).n_kv_heads == 8);
  CHECK(read(config_with(R"({"max_position_embeddings": null})")).max_positions == 2048);
}

TEST_CASE("the optional keys of a Llama are read") {
  const model_config c = read(
      config_with(R"({"rms_norm_eps": 1e-5, "rope_theta": 500000, "tie_word_embeddings": true, "attention_bias": true, "mlp_bias": true,
    "head_dim": 16, "bos_token_id": 1, "eos_token_id": [2, 99], "hidden_act": "silu", "sliding_window": null, "partial_rotary_factor": 1.0})"));
  CHECK(c.rms_epsilon == 1e-5);
  CHECK(c.rope.theta == 500000.0);
  CHECK(c.tied);
  CHECK(c.qkv_bias);
  CHECK(c.output_bias);
  CHECK(c.mlp_bias);
  CHECK(c.head_dim == 16);
  CHECK(c.bos == std::vector<lazyprune::token_id>{1});
  CHECK(c.eos == std::vector<lazyprune::token_id>{2, 99});
}

TEST_CASE("the families differ in biases, norms and defaults") {
  const model_config mistral = read(family("mistral", "MistralForCausalLM", R"({"max_position_embeddings": 4096})"));
  CHECK(mistral.max_positions == 4096);
  CHECK_FALSE(mistral.qkv_bias);
  const model_config qwen2 = read(
      family("qwen2", "Qwen2ForCausalLM", R"({"max_position_embeddings": null, "sliding_window": 4096, "use_sliding_window": false})"));
  CHECK(qwen2.max_positions == 32768);
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.output_bias);
  CHECK_FALSE(qwen2.qk_norm);
  const model_config qwen3 = read(family(
      "qwen3", "Qwen3ForCausalLM", R"({"sliding_window": 4096, "layer_types": ["full_attention", "full_attention", "full_attention"]})"));
  CHECK(qwen3.head_dim == 128);
  CHECK(qwen3.qk_norm);
  CHECK_FALSE(qwen3.qkv_bias);
  const model_config biased = read(family("qwen3", "Qwen3ForCausalLM", R"({"attention_bias": true})"));
  CHECK(biased.qkv_bias);
  CHECK(biased.output_bias);
}

TEST_CASE("unsupported keys are refused by name") {
  const std::string none = "expected this key to be absent, because lazyprune does not support it";
  CHECK(refused_with(R"({"model_type": "mixtral"})") == unsupported("c: model_type", {"gemma3_text", "\"mixtral\""}));
  CHECK(refused_with(R"({"model_type": null})") == at("c", {"\"model_type\""}));
  CHECK(refused_with(R"({"architectures": ["MixtralForCausalLM"]})") ==
        unsupported("c: architectures[0]", {"LlamaForCausalLM", "\"MixtralForCausalLM\""}));
  CHECK(refused_with(R"({"architectures": ["LlamaForSequenceClassification"]})") ==
        unsupported("c: architectures[0]", {"LlamaForCausalLM"}));
  CHECK(refused_with(R"({"hidden_act": "gelu"})") == unsupported("c: hidden_act", {"\"gelu\""}));
  CHECK(refused_with(R"({"quantization_config": {"bits": 4}})") == "c: quantization_config: " + none + ", found an object");
  for (const std::string key :
       {"attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "attention_multiplier", "residual_multiplier",
        "embedding_multiplier", "logits_scaling", "logit_scale", "scale_emb", "scale_depth", "compression_config"})
    CHECK(refused_with("{\"" + key + "\": 2.5}") == "c: " + key + ": " + none + ", found 2.5");
  CHECK(refused_with(R"({"partial_rotary_factor": 0.5})") == unsupported("c: partial_rotary_factor", {"0.5"}));
  CHECK(refused_with(R"({"layer_types": ["full_attention", "sliding_attention"]})") ==
        unsupported("c: layer_types[1]", {"full_attention", "\"sliding_attention\""}));
  CHECK(refused_with(R"({"sliding_window": 511})") == unsupported("c: sliding_window", {"511"}));
  for (const std::string name : {"qwen2", "qwen3"})
    CHECK(refused(family(name, name == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM", R"({"mlp_bias": true})")) ==
          unsupported("c: mlp_bias"));
  CHECK(refused(family("qwen2", "Qwen2ForCausalLM", R"({"use_mrope": true})")) == unsupported("c: use_mrope"));
  CHECK(refused(family("mistral", "MistralForCausalLM", R"({"attention_bias": true})")) == unsupported("c: attention_bias"));
  CHECK(refused(family("mistral", "MistralForCausalLM", R"({"mlp_bias": true})")) == unsupported("c: mlp_bias"));
}

TEST_CASE("a key whose value changes nothing is accepted") {
  const model_config plain = read(llama);
  for (const char* patch :
       {R"({"attention_multiplier": 0.35355339059327373, "residual_multiplier": 1, "embedding_multiplier": 1.0, "logits_scaling": 1})",
        R"({"attn_logit_softcapping": 0.0, "final_logit_softcapping": null, "query_pre_attn_scalar": 8, "logit_scale": 1, "scale_emb": 1})",
        R"({"sliding_window": 512, "use_sliding_window": true})", R"({"hidden_act": "swish"})", R"({"partial_rotary_factor": 1.0})",
        R"({"rope_scaling": {"rope_type": "default", "beta_fast": 32, "attn_factor": 1, "mscale": 0.7, "factor": 4}})"}) {
    CAPTURE(patch);
    CHECK(refused_with(patch) == "no error");
    CHECK(read(config_with(patch)) == plain);
  }
  CHECK(refused_with(R"({"query_pre_attn_scalar": 9})") == unsupported("c: query_pre_attn_scalar", {", found 9"}));
  CHECK(refused_with(R"({"attention_multiplier": "no"})") == unsupported("c: attention_multiplier", {"\"no\""}));
}

TEST_CASE("sizes have limits and must fit each other") {
  for (const std::string key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
    CHECK(refused_with("{\"" + key + "\": null}") == at("c", {key}));
    for (const std::string value : {"0", "-1", "1.0", "1e3", "\"8\"", "true", "16777217", "18446744073709551616"})
      CHECK(refused_with("{\"" + key + "\": " + value + "}") == at("c: " + key));
  }
  CHECK(refused_with(R"({"num_hidden_layers": 4097})") == at("c: num_hidden_layers", {"4096", "4097"}));
  CHECK(refused_with(R"({"num_key_value_heads": 3})") == at("c: num_key_value_heads", {"num_attention_heads", ", found 3"}));
  CHECK(refused_with(R"({"num_key_value_heads": 16})") == at("c: num_key_value_heads", {"num_attention_heads", ", found 16"}));
  CHECK(refused_with(R"({"num_key_value_heads": 0})") == at("c: num_key_value_heads"));
  CHECK(refused_with(R"({"num_attention_heads": 6, "num_key_value_heads": 2})") ==
        at("c: num_attention_heads", {"hidden_size", "64", ", found 6"}));
  CHECK(refused_with(R"({"num_attention_heads": 6, "head_dim": 16})") == "no error");
  CHECK(refused_with(R"({"head_dim": 7})") == at("c: head_dim", {", found 7"}));
  CHECK(refused_with(R"({"hidden_size": 24, "num_attention_heads": 8})") == at("c: head_dim", {", found 3"}));
  CHECK(refused_with(R"({"head_dim": 0})") == at("c: head_dim"));
  CHECK(refused_with(R"({"max_position_embeddings": 0})") == at("c: max_position_embeddings"));
  CHECK(refused_with(R"({"max_position_embeddings": 4294967296})") == at("c: max_position_embeddings"));
  CHECK(refused_with(R"({"rms_norm_eps": 0})") == at("c: rms_norm_eps", {", found 0"}));
  CHECK(refused_with(R"({"rms_norm_eps": -1e-6})") == at("c: rms_norm_eps", {"-1e-06"}));
  CHECK(refused_with(R"({"rope_theta": 0.0})") == at("c: rope_theta", {"0.0"}));
  CHECK(refused_with(R"({"tie_word_embeddings": 1})") == at("c: tie_word_embeddings", {", found 1"}));
  CHECK(refused(family("mistral", "MistralForCausalLM", R"({"num_key_value_heads": null})")) == at("c", {"\"num_key_value_heads\""}));
}

TEST_CASE("the ids of special tokens must be in the vocabulary; -1 and 2^32 - 1 mean no token") {
  CHECK(refused_with(R"({"eos_token_id": 100})") == at("c: eos_token_id", {"99", "100"}));
  CHECK(refused_with(R"({"eos_token_id": [2, 100]})") == at("c: eos_token_id[1]", {"99", "100"}));
  CHECK(refused_with(R"({"eos_token_id": -2})") == at("c: eos_token_id", {"99", ", found -2"}));
  CHECK(read(config_with(R"({"bos_token_id": -1, "eos_token_id": [2, 4294967295]})")).bos.empty());
  CHECK(read(config_with(R"({"bos_token_id": -1, "eos_token_id": [2, 4294967295]})")).eos == std::vector<lazyprune::token_id>{2});
  CHECK(refused_with(R"({"bos_token_id": "<s>"})") == at("c: bos_token_id", {"99", "\"<s>\""}));
  CHECK(refused_with(R"({"bos_token_id": [1, 2]})") == at("c: bos_token_id"));
  CHECK(refused_with(R"({"bos_token_id": 99, "eos_token_id": []})") == "no error");
}

TEST_CASE("rotary positions are read from both styles of file: default, linear and llama3") {
  const auto rope = [](const std::string& patch) { return read(config_with(patch)).rope; };
  CHECK(rope(R"({"rope_scaling": null, "rope_theta": 5e5})").theta == 5e5);
  CHECK(rope(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}})").theta == 7.0);
  CHECK(rope(R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_theta": 3.0})") ==
        rope(R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 3.0}})"));
  const auto linear = rope(R"({"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2.5}})");
  CHECK(linear.scaling == rope_scaling::linear);
  CHECK(linear.factor == 2.5);
  const auto llama3 = rope(
      R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1.5, "high_freq_factor": 4.5, "original_max_position_embeddings": 8192}})");
  CHECK(llama3.scaling == rope_scaling::llama3);
  CHECK(llama3.factor == 8.0);
  CHECK(llama3.low_frequency == 1.5);
  CHECK(llama3.high_frequency == 4.5);
  CHECK(llama3.original_positions == 8192);
}

TEST_CASE("rotary positions without a rope_type have the type default") {
  const auto plain = read(llama).rope;
  for (const char* patch : {R"({"rope_scaling": {}})", R"({"rope_parameters": {}})", R"({"rope_parameters": {"rope_theta": 10000.0}})",
                            R"({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 1.0, "factor": null}})"}) {
    CAPTURE(patch);
    CHECK(refused_with(patch) == "no error");
    CHECK(read(config_with(patch)).rope == plain);
  }
  CHECK(read(config_with(R"({"rope_parameters": {"rope_theta": 7.0}})")).rope.theta == 7.0);
  for (const char* key : {"factor", "low_freq_factor", "short_factor", "attention_factor"})
    CHECK(refused_with(R"({"rope_parameters": {")" + std::string(key) + R"(": 2}})") == at("c: rope_parameters", {"\"rope_type\""}));
}

TEST_CASE("rotary positions in both styles of one file must agree") {
  const std::string linear = R"({"rope_type": "linear", "factor": 2.0})";
  const auto both = [](const std::string& old_style, const std::string& new_style, const std::string& theta = "1e6") {
    return R"({"rope_theta": )" + theta + R"(, "rope_scaling": )" + old_style + R"(, "rope_parameters": )" + new_style + "}";
  };
  const auto new_style = [](const std::string& more) { return R"({"rope_theta": 1e6)" + more + "}"; };
  CHECK(read(config_with(both(linear, new_style(R"(, "rope_type": "linear", "factor": 2.0)")))).rope ==
        read(config_with(R"({"rope_theta": 1e6, "rope_scaling": )" + linear + "}")).rope);
  CHECK(read(config_with(both(R"({"rope_type": "default"})", new_style("")))).rope.theta == 1e6);
  CHECK(read(config_with(both("{}", new_style(""), "null"))).rope.theta == 1e6);
  CHECK(refused_with(both(linear, new_style(""))) == at("c: rope_scaling", {"rope_parameters"}));
  CHECK(refused_with(both("{}", new_style(R"(, "rope_type": "linear", "factor": 2.0)"))) == at("c: rope_scaling", {"rope_parameters"}));
  CHECK(refused_with(both(R"({"rope_theta": 5.0})", new_style(""), "null")) == at("c: rope_scaling", {"rope_parameters"}));
}

TEST_CASE("YaRN's numbers and their defaults equal those of transformers") {
  const auto rope = [](const std::string& keys) {
    return read(config_with(R"({"rope_scaling": {"rope_type": "yarn", )" + keys + "}}")).rope;
  };
  const auto plain = rope(R"("factor": 4.0, "original_max_position_embeddings": 64)");
  CHECK(plain.scaling == rope_scaling::yarn);
  CHECK(plain.original_positions == 64);
  CHECK(plain.beta_fast == 32.0);
  CHECK(plain.beta_slow == 1.0);
  CHECK(plain.truncate);
  CHECK(plain.attention_factor == doctest::Approx(0.1 * std::log(4.0) + 1.0).epsilon(1e-15));
  CHECK(rope(R"("factor": 1.0)").attention_factor == 1.0);
  CHECK(rope(R"("factor": 4.0)").original_positions == 512);  // max_position_embeddings
  CHECK(rope(R"("factor": 4.0, "attention_factor": 0.75)").attention_factor == 0.75);
  CHECK(rope(R"("factor": 4.0, "mscale": 0.5, "mscale_all_dim": 0.25)").attention_factor ==
        doctest::Approx((0.05 * std::log(4.0) + 1.0) / (0.025 * std::log(4.0) + 1.0)).epsilon(1e-15));
  CHECK(rope(R"("factor": 4.0, "mscale": 0.5)").attention_factor == plain.attention_factor);
  CHECK(rope(R"("factor": 4.0, "mscale": 0.5, "mscale_all_dim": 0)").attention_factor == plain.attention_factor);
  const auto all = rope(R"("factor": 4.0, "beta_fast": 16, "beta_slow": 2.0, "truncate": false)");
  CHECK(all.beta_fast == 16.0);
  CHECK(all.beta_slow == 2.0);
  CHECK_FALSE(all.truncate);
  CHECK(rope(R"("factor": 4.0, "attn_factor": 0.5, "extrapolation_factor": 2)") == rope(R"("factor": 4.0)"));  // transformers ignores them
  // If the file gives no factor, the factor is the ratio of the lengths.
  CHECK(rope(R"("original_max_position_embeddings": 128)").factor == 4.0);
}

TEST_CASE("keys that transformers ignores and other engines use are noted with their place") {
  const auto said = [](const std::string& scaling) {
    return lazyprune::detail::passed_over(json_value::parse(R"({"rope_scaling": )" + scaling + "}", "c", 1 << 20));
  };
  const auto two = said(R"({"type": "yarn", "factor": 4, "attn_factor": 0.5, "extrapolation_factor": 2})");
  REQUIRE(two.size() == 2);
  CHECK(two[0].starts_with("c: rope_scaling.attn_factor: "));
  CHECK(two[1].starts_with("c: rope_scaling.extrapolation_factor: "));
  CHECK(said(R"({"type": "yarn", "factor": 4, "attn_factor": 1.0})").empty());
  CHECK(said(R"({"type": "linear", "factor": 4, "attn_factor": 0.5})").empty());
  CHECK(said("null").empty());
}

TEST_CASE("with YaRN, the longest sequence is the scaled length or max_position_embeddings, whichever is greater") {
  const auto positions = [](const std::string& keys) {
    return read(config_with(R"({"rope_scaling": {"type": "yarn", )" + keys + "}}")).max_positions;
  };
  CHECK(positions(R"("factor": 4.0, "original_max_position_embeddings": 512)") == 2048);
  CHECK(positions(R"("factor": 4.0, "original_max_position_embeddings": 64)") == 512);
}

TEST_CASE("unsupported and wrong rotary positions are refused") {
  const auto rope = [](const std::string& keys) { return refused(config_with(R"({"rope_scaling": {)" + keys + "}}")); };
  CHECK(rope(R"("type": "dynamic", "factor": 2.0)") == unsupported("c: rope_scaling.type", {"\"dynamic\""}));
  CHECK(rope(R"("rope_type": "longrope", "factor": 2.0)") == at("c: rope_scaling", {"\"short_factor\""}));
  CHECK(rope(R"("type": "mrope", "mrope_section": [16, 24, 24])") == unsupported("c: rope_scaling.mrope_section"));
  CHECK(rope(R"("rope_type": "linear", "type": "yarn", "factor": 2.0)") == at("c: rope_scaling.type", {"rope_type", "\"yarn\""}));
  CHECK(rope(R"("factor": 2.0)") == at("c: rope_scaling", {"\"rope_type\""}));
  CHECK(rope(R"("type": "linear")") == at("c: rope_scaling", {"\"factor\""}));
  CHECK(rope(R"("type": "linear", "factor": 0.5)") == at("c: rope_scaling.factor", {"0.5"}));
  CHECK(rope(R"("type": "linear", "factor": "2")") == at("c: rope_scaling.factor", {"\"2\""}));
  CHECK(rope(R"("type": "linear", "factor": 2, "partial_rotary_factor": 0.5)") ==
        unsupported("c: rope_scaling.partial_rotary_factor", {"0.5"}));
  CHECK(rope(R"("type": "llama3", "factor": 8)") == at("c: rope_scaling", {"\"original_max_position_embeddings\""}));
  CHECK(rope(R"("type": "llama3", "factor": 8, "original_max_position_embeddings": 0)") ==
        at("c: rope_scaling.original_max_position_embeddings"));
  CHECK(rope(R"("type": "llama3", "factor": 8, "original_max_position_embeddings": 64, "low_freq_factor": 4, "high_freq_factor": 4)") ==
        at("c: rope_scaling.high_freq_factor", {"low_freq_factor", ", found 4"}));
  CHECK(rope(R"("type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2)") ==
        at("c: rope_scaling.type", {"beta_fast", "beta_slow", "\"yarn\""}));
  CHECK(rope(R"("type": "yarn", "factor": 2, "beta_fast": -1)") == at("c: rope_scaling.beta_fast", {", found -1"}));
  CHECK(rope(R"("type": "yarn", "factor": 2, "rope_theta": 1)") == at("c: rope_scaling.type", {"rope_theta", "\"yarn\""}));
  CHECK(rope(R"("type": "yarn", "factor": 1000, "mscale": 1, "mscale_all_dim": -2)") ==
        at("c: rope_scaling.type", {"mscale_all_dim", "\"yarn\""}));
  CHECK(refused_with(R"({"rope_scaling": "linear"})") == at("c: rope_scaling", {"\"linear\""}));
  CHECK(refused_with(R"({"rope_theta": 5.0, "rope_parameters": {"rope_type": "default", "rope_theta": 6.0}})") ==
        at("c: rope_parameters.rope_theta", {"rope_theta", "6.0"}));
  CHECK(refused_with(R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "default"}})") ==
        at("c: rope_scaling", {"rope_scaling", "rope_parameters"}));
}

TEST_CASE("the config of the bundled model") {
  const model_config c = read(read_text(pocket_model() / "config.json"));
  CHECK(c.layers == 6);
  CHECK(c.head_dim == 32);
  CHECK(c.vocabulary == 2304);
  CHECK(c.rope.theta == 1e7);
  CHECK_FALSE(c.tied);
}

TEST_CASE("an unsupported config has another error code than a wrong one") {
  using lazyprune::error_code;
  const auto code = [](const std::string& text) { return code_of([&] { read(text); }); };
  for (const char* patch :
       {R"({"model_type": "gpt2"})", R"({"architectures": ["LlamaForSequenceClassification"]})", R"({"hidden_act": "gelu"})",
        R"({"quantization_config": {}})", R"({"partial_rotary_factor": 0.5})", R"({"sliding_window": 128})",
        R"({"layer_types": ["sliding_attention"]})", R"({"rope_scaling": {"rope_type": "dynamic"}})",
        R"({"rope_scaling": {"rope_type": "mrope", "mrope_section": [1.0]}})"}) {
    CAPTURE(patch);
    CHECK(code(config_with(patch)) == error_code::unsupported);
  }
  for (const char* patch : {R"({"model_type": 3})", R"({"vocab_size": 0})", R"({"num_key_value_heads": 3})", R"({"hidden_size": 63})",
                            R"({"rope_scaling": {"rope_type": "linear", "factor": 0.5}})",
                            R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": {}})"}) {
    CAPTURE(patch);
    CHECK(code(config_with(patch)) == error_code::bad_input);
  }
}
