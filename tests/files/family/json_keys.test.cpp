// SPDX-License-Identifier: MIT
#include <lazyprune/files/family/json_keys.hpp>

#include <doctest/doctest.h>

#include "files.hpp"

TEST_CASE("LongRoPE in any family: a file without a factor has the ratio of the lengths as its factor") {
  using namespace lazyprune_test;
  nlohmann::json config = nlohmann::json::parse(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 8, "intermediate_size": 48, "max_position_embeddings": 512,
    "rope_scaling": {"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4], "original_max_position_embeddings": 64}})");
  const auto scale = [](double factor) { return doctest::Approx(std::sqrt(1 + std::log(factor) / std::log(64.0))).epsilon(1e-15); };
  CHECK(config_of_json(config).rope.attention_factor == scale(8));
  config["rope_scaling"]["factor"] = 2.0;
  CHECK(config_of_json(config).rope.attention_factor == scale(2));
  config["rope_scaling"]["attention_factor"] = 1.5;
  CHECK(config_of_json(config).rope.attention_factor == 1.5);
  config["original_max_position_embeddings"] = 128;  // goes before the length in rope_scaling, as in transformers
  CHECK(config_of_json(config).rope.original_positions == 128);
  CHECK(said_of(config, {{"rope_scaling", {{"short_factor", nullptr}}}}) == at("c: rope_scaling", {"\"short_factor\""}));
  CHECK(said_of(config, {{"rope_scaling", {{"long_factor", {1}}}}}) == at("c: rope_scaling.long_factor"));
  CHECK(lazyprune::detail::longrope_scale(1.0, 1) == 1.0);
}
