// SPDX-License-Identifier: MIT
// Tests whole models of four layers on every path, also on emulated registers. Their logits may differ from those of the reference only as
// far as the path's arithmetic allows. tests/model/transformer.test.cpp does the same for the larger bundled model.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>

#include <doctest/doctest.h>

#include "../test_data.hpp"
#include "against_reference.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

constexpr auto check_cpu = [](const auto& load, const stages& when) {
  check_against_reference<cpu>(
      load, [](const execution& e) { return isa_of(e) >= isa::avx512_bf16; }, when);
};

}  // namespace

TEST_CASE("a random model agrees with the reference" ON_EVERY_PATH) { check_random_model(check_cpu); }

TEST_CASE("windows, soft caps, GELU, norms after the blocks, LongRoPE and partial RoPE agree with the reference" ON_EVERY_PATH) {
  check_families(check_cpu);
}

TEST_CASE("trained shapes of every kind agree with the reference" ON_EVERY_PATH_NEEDS("data")) {
  const auto families = test_data("models/families");
  if (families.empty()) return;
  for (const std::string name : {"llama_mha_untied_bias", "mistral_head_dim", "qwen3_qk_norm"}) {
    CAPTURE(name);
    const checkpoint files(families / name);
    check_cpu([&](auto& backend, dtype as) { return load_model(backend, files, {.as = as}); }, stages{{1, 0.7}, {3, 0.5}});
  }
}
