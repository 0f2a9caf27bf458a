// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/phi3.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

using namespace lazyprune_test;
using lazyprune::rope_scaling;

namespace {

const nlohmann::json phi = nlohmann::json::parse(R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false, "bos_token_id": 1,
  "eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 131072,
  "model_type": "phi3", "num_attention_heads": 4, "num_hidden_layers": 2, "original_max_position_embeddings": 4096,
  "rms_norm_eps": 1e-05, "rope_scaling": {"long_factor": [1.5, 2, 3, 4], "short_factor": [1, 1.1, 1.2, 1.3], "type": "longrope"},
  "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": false, "vocab_size": 32064})");

}  // namespace

TEST_CASE("phi3: LongRoPE scaled by the ratio of the lengths, a window, and fused tensors") {
  const lazyprune::model_config c = config_of_json(phi);
  CHECK(c.fused);
  CHECK(c.n_kv_heads == 4);
  CHECK(c.windows == window_list(2, 262144));
  CHECK(c.rope.scaling == rope_scaling::longrope);
  CHECK(c.rope.divisors == std::vector<double>{1, 1.1, 1.2, 1.3});
  CHECK(c.rope.long_divisors == std::vector<double>{1.5, 2, 3, 4});
  CHECK(c.rope.original_positions == 4096);
  CHECK(c.rope.attention_factor == doctest::Approx(std::sqrt(1 + std::log(32.0) / std::log(4096.0))).epsilon(1e-15));
  CHECK(c.max_positions == 131072);
  nlohmann::json plain = phi;
  for (const char* key : {"rope_scaling", "sliding_window", "rms_norm_eps"}) plain.erase(key);
  CHECK(config_of_json(plain).rope == lazyprune::rope_config{});
  CHECK(config_of_json(plain).windows.empty());
  CHECK(config_of_json(plain).rms_epsilon == 1e-5);
}

TEST_CASE("phi3: only a part of each head may rotate") {
  nlohmann::json part = phi;
  part["rope_scaling"] = {{"long_factor", {1, 2, 3}}, {"short_factor", {1, 2, 3}}, {"type", "longrope"}};
  part["partial_rotary_factor"] = 0.75;
  CHECK(config_of_json(part).rotary_dim == 6);
  CHECK(said_of(part, {{"partial_rotary_factor", 0.5}}) == at("c: rope_scaling.short_factor"));
  CHECK(said_of(part, {{"partial_rotary_factor", 0.4}}) == at("c: partial_rotary_factor", {"0.4"}));
  CHECK(said_of(part, {{"partial_rotary_factor", 1.5}}) == at("c: partial_rotary_factor"));
}

TEST_CASE("phi3: wrong and unsupported keys") {
  CHECK(said_of(phi, {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}, {"long_factor", nullptr}, {"short_factor", nullptr}}}}) ==
        unsupported("c: rope_scaling.type", {"\"linear\""}));
  CHECK(said_of(phi, {{"rope_scaling", {{"long_factor", nullptr}}}}) == at("c: rope_scaling", {"\"long_factor\""}));
  CHECK(said_of(phi, {{"rope_scaling", {{"long_factor", {1, 2, 0, 4}}}}}) == at("c: rope_scaling.long_factor[2]", {", found 0"}));
  CHECK(said_of(phi, {{"attention_bias", true}}) == unsupported("c: attention_bias"));
}

TEST_CASE("phi3: GGUF files give the window, and two tensors mark LongRoPE") {
  const auto phi_file = [] { return small_gguf("phi3").number("attention.sliding_window", 0); };
  CHECK(phi_file().config().windows.empty());
  CHECK(phi_file().config().fused);
  CHECK(phi_file().number("attention.sliding_window", 7).config().windows == window_list(4, 7));
  CHECK(small_gguf("phi3").said() == at("metadata", {"\"phi3.attention.sliding_window\""}));
  const auto partial = phi_file().number("rope.dimension_count", 6).config();
  CHECK(partial.rotary_dim == 6);
  CHECK(phi_file().number("rope.dimension_count", 10).said() == at("metadata: phi3.rope.dimension_count", {", found 10"}));

  const auto longrope = [&] {
    return phi_file().number("rope.scaling.original_context_length", 16).floats("rope_factors_short.weight", {1, 2, 3, 4});
  };
  CHECK(longrope().said() == at("tensor rope_factors_long.weight", {"LongRoPE"}));
  const auto c = longrope().floats("rope_factors_long.weight", {4, 5, 6, 7}).config();
  CHECK(c.rope.scaling == rope_scaling::longrope);
  CHECK(c.rope.long_divisors == std::vector<double>{4, 5, 6, 7});
  CHECK(c.rope.attention_factor == doctest::Approx(std::sqrt(1.5)));  // 64 positions, scaled from 16
  const auto given = longrope().floats("rope_factors_long.weight", {4, 5, 6, 7}).real("rope.scaling.attn_factor", 1.25f).config();
  CHECK(given.rope.attention_factor == 1.25);
  CHECK(phi_file().real("rope.scaling.attn_factor", 1.25f).said() ==
        unsupported("metadata: phi3.rope.scaling.attn_factor", {"LongRoPE", "1.25"}));
}
