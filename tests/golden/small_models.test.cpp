// SPDX-License-Identifier: MIT
// Whole models of four layers on every path, also those that run on imitated registers: as far from the reference as the path's arithmetic
// says, and no further. The bundled model, which is larger: tests/model/transformer.test.cpp.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/random_source.hpp>

#include <doctest/doctest.h>

#include "../test_data.hpp"
#include "against_reference.hpp"
#include "family_weights.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

/// `load(backend, weights)` makes the model, whose weights are bf16 numbers, in a backend.
template <class Load>
void check_against_reference(const Load& load, const stages& when = stages{{1, 0.7}, {3, 0.5}}) {
  lazyprune_test::check_against_reference<cpu>(
      load, [](const execution& e) { return isa_of(e) >= isa::avx512_bf16; }, when);
}

}  // namespace

TEST_CASE("a random model agrees with the reference" ON_EVERY_PATH) {
  model_config config = shape_named("pocket");
  config.vocabulary = 199;
  config.hidden = 48;
  config.layers = 4;
  config.n_heads = 6;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.ffn = 80;
  check_against_reference(
      [&](auto& backend, dtype as) { return load_model(backend, config, random_source(config, dtype::bf16), {.as = as}); });
}

TEST_CASE("windows, soft caps, GELU, norms behind, LongRoPE and heads that rotate in part agree with the reference" ON_EVERY_PATH) {
  const std::map<std::string, stages> runs{
      {"gemma2", stages{{2, 0.7}, {3, 0.5}}}, {"gemma3", stages{{3, 0.5}}}, {"phi3_partial", stages{{1, 0.7}, {3, 0.5}}}};
  for (const auto& run : runs) {
    CAPTURE(run.first);
    model_config config = config_of(family_goldens().at(run.first));
    config.max_positions = 256;
    check_against_reference([&](auto& backend, dtype as) { return load_model(backend, config, family_weights(config, true), {.as = as}); },
                            run.second);
  }
}

TEST_CASE("trained shapes of every kind agree with the reference" ON_EVERY_PATH) {
  const auto families = test_data("models/families");
  if (families.empty()) return;
  for (const std::string name : {"llama_mha_untied_bias", "mistral_head_dim", "qwen3_qk_norm"}) {
    CAPTURE(name);
    const checkpoint files(families / name);
    check_against_reference([&](auto& backend, dtype as) { return load_model(backend, files, {.as = as}); });
  }
}
