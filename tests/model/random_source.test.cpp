// SPDX-License-Identifier: MIT
#include <lazyprune/model/random_source.hpp>

#include <lazyprune/model/model.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <lazyprune/backend/reference.hpp>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

std::vector<float> numbers(const tensor& t) {
  std::vector<float> values(t.rows * t.columns);
  widen(t, 0, values.size(), values.data());
  return values;
}

}  // namespace

TEST_CASE("the published shapes have as many parameters as their names say") {
  const auto parameters = [](std::string_view name) {
    const model_config& c = shape_named(name);
    const std::size_t attention = c.hidden * c.head_dim * (2 * c.n_heads + 2 * c.n_kv_heads);
    return static_cast<double>(c.layers * (attention + 3 * c.hidden * c.ffn) + 2 * c.vocabulary * c.hidden) * 1e-9;
  };
  // The published numbers, in billions, are 1.10, 6.74, 6.9 (with a vocabulary of 51,200), 8.03, 7.24 and 7.62. The formula leaves out
  // norms and biases, because they do not change the last of these digits.
  CHECK(parameters("tinyllama-1.1b") == doctest::Approx(1.10).epsilon(0.005));
  CHECK(parameters("llama-2-7b") == doctest::Approx(6.74).epsilon(0.001));
  CHECK(parameters("xgen-7b") == doctest::Approx(6.9).epsilon(0.005));
  CHECK(parameters("llama-3-8b") == doctest::Approx(8.03).epsilon(0.001));
  CHECK(parameters("mistral-7b") == doctest::Approx(7.24).epsilon(0.001));
  CHECK(parameters("qwen2-7b") == doctest::Approx(7.62).epsilon(0.001));
  CHECK(error_of([&] { shape_named("gpt-5"); }) ==
        at("shape", {"tinyllama-1.1b, llama-2-7b, xgen-7b, llama-3-8b, mistral-7b, qwen2-7b, pocket", ", found gpt-5"}));
}

TEST_CASE("weights are the same in every version, so that measurements can be repeated") {
  const auto q = numbers(random_source(shape_named("pocket"), dtype::f32).get("model.layers.0.self_attn.q_proj.weight", 128, 128));
  CHECK(q[0] == -0.02999764494597912f);
  CHECK(q[1] == 0.027484310790896416f);
}

TEST_CASE("weights are the same each time, differ between tensors, and have a standard deviation of 0.02") {
  const model_config& c = shape_named("pocket");
  const random_source a(c, dtype::f32), b(c, dtype::f32), rounded(c, dtype::bf16);
  const auto q = numbers(a.get("model.layers.0.self_attn.q_proj.weight", 128, 128));
  CHECK(q == numbers(b.get("model.layers.0.self_attn.q_proj.weight", 128, 128)));
  CHECK(q != numbers(a.get("model.layers.1.self_attn.q_proj.weight", 128, 128)));

  auto in_bf16 = q;
  for (float& value : in_bf16) value = float_of_bf16(bf16_of_float(value));
  CHECK(in_bf16 == numbers(rounded.get("model.layers.0.self_attn.q_proj.weight", 128, 128)));

  double sum = 0, squares = 0;
  for (const float value : q) {
    REQUIRE(std::abs(value) <= 0.035f);
    sum += value, squares += static_cast<double>(value) * value;
  }
  const double n = static_cast<double>(q.size());
  CHECK(std::abs(sum / n) < 5 * 0.0202 / std::sqrt(n));                    // five standard errors of the mean
  CHECK(std::sqrt(squares / n) == doctest::Approx(0.0202).epsilon(0.03));  // 0.035 / sqrt(3); the standard error of this estimate is 0.6 %
}

TEST_CASE("a model with all optional tensors can be loaded") {
  model_config c = shape_named("pocket");
  c.vocabulary = 97, c.hidden = 16, c.head_dim = 24, c.ffn = 20, c.layers = 2;
  c.qkv_bias = c.output_bias = c.mlp_bias = c.qk_norm = true;
  for (const bool tied : {false, true}) {
    c.tied = tied;
    reference<double> backend;
    const auto m = load_model(backend, c, random_source(c, dtype::bf16));
    CHECK(m.weights.head.has_value() == !tied);
    CHECK(m.weights.norm[15] == 1.0);
    CHECK((*m.weights.layers[1].q_norm)[23] == 1.0);
    CHECK(m.head().outputs() == 97);
  }
}

TEST_CASE("fused projections are as wide as their parts together; a tensor larger than any in the model is refused") {
  model_config c = shape_named("pocket");
  c.vocabulary = 10, c.layers = 1;
  const std::size_t queries = c.n_heads * c.head_dim, keys = c.n_kv_heads * c.head_dim;
  for (const bool fused : {false, true}) {
    c.fused = fused;
    const random_source source(c, dtype::f32);
    for (int i = 0; i < 200; ++i) {  // a tensor's name decides where in the pool of numbers it begins
      const tensor both = source.get("gate_up." + std::to_string(i), fused ? 2 * c.ffn : c.ffn, c.hidden);
      const auto all = numbers(both);
      REQUIRE(std::ranges::all_of(all, [](float x) { return std::abs(x) <= 0.035f; }));
    }
    if (fused) CHECK(source.get("qkv", queries + 2 * keys, c.hidden).rows == queries + 2 * keys);
    CHECK(error_of([&] { source.get("wide", 2 * c.ffn + 1, c.hidden); }) == at("random weights: wide"));
    CHECK_THROWS_AS(source.get("wide", static_cast<std::size_t>(-1), 2), error);
    CHECK_THROWS_AS(source.get("norm.weight", 1, std::max(c.hidden, c.head_dim) + 1), error);
  }
  CHECK(error_of([&] { random_source(c, dtype::f32).get("wide", 513, 128); }) ==
        at("random weights: wide", {"65536", ", found 513 rows of 128"}));
}

TEST_CASE("types other than f32 and bf16 are refused") {
  CHECK(error_of([&] { random_source(shape_named("pocket"), dtype::q8_0); }) == at("random weights: dtype", {", found q8_0"}));
  CHECK(error_of([&] { random_source(shape_named("pocket"), dtype::f16); }) == at("random weights: dtype", {", found f16"}));
}
