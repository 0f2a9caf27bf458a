// SPDX-License-Identifier: MIT
// Compares `reference` with values worked out by hand. tensor_backend.test.cpp tests the rest of its behaviour.
#include <lazyprune/backend/reference.hpp>

#include <doctest/doctest.h>

#include <numbers>

#include <backend/on_rows.hpp>
#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

using backend = reference<>;

std::vector<double> values(const guarded<double>& g) {
  std::vector<double> out(g.view().rows * g.view().columns);
  backend{}.read(g.view(), out.data());
  return out;
}

guarded<double> row(std::initializer_list<float> numbers) { return {1, numbers.size(), std::vector<float>(numbers)}; }

constexpr double tiny = 1e-15;  // a few roundings of numbers around 1 in double

}  // namespace

TEST_CASE("a product is stored, with and without a bias, or added to earlier numbers") {
  backend b;
  const auto w = b.pack(only(stored({1, 2, 3, 4, 5, 6}, 2, 3, dtype::f32)), dtype::f32);
  const auto bias = b.load(only(stored({0.5f, -0.5f}, 1, 2, dtype::f32)));
  guarded<double> out(1, 2);
  multiply(b, row({1, 10, 100}).view(), w, nullptr, out.view());
  CHECK(values(out) == std::vector<double>{321, 654});
  multiply(b, row({1, 10, 100}).view(), w, &bias, out.view());
  CHECK(values(out) == std::vector<double>{321.5, 653.5});
  multiply_add(b, row({1, 0, 0}).view(), w, &bias, out.view());
  CHECK(values(out) == std::vector<double>{323, 657});
  CHECK(w.bytes() == 6 * sizeof(double));
}

TEST_CASE("packing as bf16 rounds; packing as f32 does not") {
  backend b;
  const stored part({1.00390625f, 3.0f}, 1, 2, dtype::f32);  // 1 + 2^-8 is half way between two bf16 numbers; 1 is the even one
  CHECK(b.pack(only(part), dtype::f32).row(0)[0] == 1.00390625);
  CHECK(b.pack(only(part), dtype::bf16).row(0)[0] == 1.0);
  CHECK(b.pack(only(part), dtype::bf16).row(0)[1] == 3.0);
}

TEST_CASE("a gated product with silu is silu(x gate^T), times x up^T") {
  backend b;
  const auto w = b.pack_gated(stored({1}, 1, 1, dtype::f32), stored({3}, 1, 1, dtype::f32), dtype::f32);
  const auto bias = b.load(only(stored({0, 1}, 1, 2, dtype::f32)));
  guarded<double> out(1, 1);
  gated_multiply(b, row({2}).view(), w, nullptr, gate_activation::silu, out.view());
  CHECK(std::abs(out(0, 0) - 6 * 2 / (1 + std::exp(-2.0))) <= 16 * tiny);
  gated_multiply(b, row({2}).view(), w, &bias, gate_activation::silu, out.view());
  CHECK(std::abs(out(0, 0) - 7 * 2 / (1 + std::exp(-2.0))) <= 16 * tiny);
}

TEST_CASE("a gated product with gelu_tanh is GELU(x gate^T), by the definition with tanh, times x up^T") {
  backend b;
  const auto w = b.pack_gated(stored({1}, 1, 1, dtype::f32), stored({3}, 1, 1, dtype::f32), dtype::f32);
  guarded<double> out(1, 1);
  gated_multiply(b, row({-2}).view(), w, nullptr, gate_activation::gelu_tanh, out.view());
  const double inner = std::sqrt(2 / std::numbers::pi) * (-2 - 0.044715 * 8);
  CHECK(std::abs(out(0, 0) - 6 * (1 + std::tanh(inner))) <= 16 * tiny);
}

TEST_CASE("embedding gives a row of the table, times the scale") {
  backend b;
  const auto table = b.pack(only(stored({1, 2, 3, 4}, 2, 2, dtype::f32)), dtype::f32);
  guarded<double> out(1, 2);
  b.embed(table, std::vector<std::uint32_t>{1}, 1.5, out.view());
  CHECK(values(out) == std::vector<double>{4.5, 6});
}

TEST_CASE("rms_norm divides by the root of mean square plus epsilon; 3 and 4 have the mean square 12.5") {
  backend b;
  guarded<double> out(1, 2);
  const auto weight = b.load(only(stored({1, 10}, 1, 2, dtype::f32)));
  b.rms_norm(row({3, 4}).view(), weight, 12.5, out.view());  // epsilon is as large as the mean square: the root is 5
  CHECK(std::abs(out(0, 0) - 0.6) <= tiny);
  CHECK(std::abs(out(0, 1) - 8) <= 16 * tiny);
}

TEST_CASE("rotate turns pairs that are half a head apart: a quarter turn for frequency pi / 2 at position 1, none for frequency 0") {
  backend b;
  const std::vector<double> frequencies{std::numbers::pi / 2, 0};
  const auto rope = b.make_rope(frequencies, 2.0, 3);
  guarded<double> x = row({1, 2, 3, 4, 5, 6, 7, 8});
  b.rotate(x.view(), 4, std::vector<position>{1}, rope);
  const std::vector<double> expected{-6, 2, 2, 4, -14, 6, 10, 8};  // first pair: (a, b) -> 2 (-b, a); second pair unchanged
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::abs(x(0, i) - expected[i]) <= 16 * tiny);
}

TEST_CASE("attention leaves out later and pruned tokens, and heads share a key/value head") {
  backend b;
  backend::kv_layer kv(1, 1);
  const float log3 = std::log(3.0f);
  // Slots hold the tokens 9, 4, 2 and 7; token 4 is pruned.
  append(b, kv, guarded<double>(4, 1, std::vector<float>{5, 99, 0, log3}).view(),
         guarded<double>(4, 1, std::vector<float>{50, 99, 8, 16}).view());
  const std::vector<position> active{2, 7, 9}, rows{7, 9};
  const std::vector<std::uint32_t> slots{2, 3, 0};
  const guarded<double> q(2, 2, std::vector<float>{1, 0, 0, 0});
  guarded<double> out(2, 2);
  guarded<float> probe(2 * 2, 3);
  attend(b, q.view(), kv, {{2, 1, 1}, rows, active, slots}, out.view(), {probe.view().data, 2, probe.view().stride});
  const double quarter = 1 / (1 + std::exp(static_cast<double>(log3)));
  CHECK(std::abs(out(0, 0) - (8 * quarter + 16 * (1 - quarter))) <= 16 * tiny);
  CHECK(std::abs(out(0, 1) - 12) <= 16 * tiny);
  CHECK(std::abs(out(1, 0) - 74.0 / 3) <= 64 * tiny);
  CHECK(probe(0, 0) == doctest::Approx(0.25));
  CHECK(probe(0, 1) == doctest::Approx(0.75));
  CHECK(probe(0, 2) == 0.0f);
  CHECK(probe(1, 0) == 0.5f);
  CHECK(probe(3, 2) == static_cast<float>(1.0 / 3));
  CHECK(probe.untouched());
}

TEST_CASE("attention can have a window of positions, another scale and a soft cap") {
  backend b;
  backend::kv_layer kv(1, 1);
  append(b, kv, guarded<double>(4, 1, std::vector<float>{3, -1, 2, 8}).view(),
         guarded<double>(4, 1, std::vector<float>{10, 20, 30, 40}).view());
  const std::vector<position> active{2, 7, 8, 9}, rows{7, 9};
  const std::vector<std::uint32_t> slots{0, 1, 2, 3};
  const guarded<double> q(2, 1, std::vector<float>{5, 1});
  guarded<double> out(2, 1);
  guarded<float> probe(2, 4);
  attention_rows what{{1, 1, 1}, rows, active, slots};
  what.variant.window = 2;  // token 7 sees only itself, because 6 is not active; token 9 sees 8 and 9
  attend(b, q.view(), kv, what, out.view(), {probe.view().data, 2, probe.view().stride});
  CHECK(out(0, 0) == 20);
  CHECK(probe(0, 0) == 0.0f);
  CHECK(probe(0, 1) == 1.0f);
  CHECK(std::abs(out(1, 0) - (30 + 10 / (1 + std::exp(-6.0)))) <= 64 * tiny);
  CHECK(probe(1, 1) == 0.0f);
  CHECK(probe.untouched());

  what.variant = {.scale = 0.5, .soft_cap = 3, .window = 6};  // token 7 sees 2 and itself, with the scores 7.5 and -2.5
  attend(b, q.view(), kv, what, out.view(), {});
  const double difference = 3 * std::tanh(2.5) - 3 * std::tanh(-2.5 / 3);
  CHECK(std::abs(out(0, 0) - (20 - 10 / (1 + std::exp(-difference)))) <= 64 * tiny);
  what.variant.window = 5;
  attend(b, q.view(), kv, what, out.view(), {});
  CHECK(out(0, 0) == 20);
}
