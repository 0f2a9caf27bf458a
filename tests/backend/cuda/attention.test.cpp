// SPDX-License-Identifier: MIT
// Keys and values in bf16, on tensor cores and not; in float, against the definition: the contract, in cuda.test.cpp.
#include <lazyprune/backend/cuda/attention.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <backend/samples.hpp>
#include <lazyprune/backend/reference.hpp>
#include <tested_device.hpp>

#include "hosted_cuda.hpp"
#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

std::vector<float> rounded(std::vector<float> numbers) {
  for (float& number : numbers) number = float_of_bf16(bf16_of_float(number));
  return numbers;
}

struct variant_case {
  attention_shape shape;
  std::size_t active, rows;
  attention_sample::layout layout;
  attention_variant variant = {};
};

std::vector<variant_case> cases() {
  using enum attention_sample::layout;
  return {{{1, 1, 32}, 40, 40, run},
          {{2, 1, 64}, 130, 65, scattered},
          {{4, 4, 128}, 65, 33, late_run, {.window = 20}},
          {{2, 2, 256}, 70, 17, scattered, {.soft_cap = 20}},
          {{6, 2, 80}, 200, 64, scattered, {.scale = 0.2, .soft_cap = 50, .window = 100}},
          {{64, 8, 33}, 31, 18, run, {.window = 1}},
          {{8, 1, 24}, 300, 300, late_run, {.window = 256}},
          {{3, 3, 5}, 129, 128, scattered}};
}

/// How far a result may be off. Tensor cores get queries, keys and values as bf16, which the reference gets too; the attention weights are
/// rounded to bf16 there alone, each by at most 2^-8 of itself: so much of the sum of the absolute values of its terms. All else is float:
/// some hundred roundings of 2^-24.
void check_against_reference(bool exact) {
  std::uint32_t seed = 0;
  double most = 0;
  for (const variant_case& c : cases()) {
    CAPTURE(c.shape.heads);
    CAPTURE(c.shape.head_dim);
    CAPTURE(c.rows);
    attention_sample s(c.shape, c.active, c.rows, c.layout, ++seed);
    s.k = rounded(s.k);
    s.v = rounded(s.v);
    if (!exact) s.q = rounded(s.q);
    attention_rows what = s.what();
    what.variant = c.variant;
    hosted_cuda backend({.kv = dtype::bf16, .exact = exact});
    const auto kv = s.cache(backend);
    CHECK(kv.type() == dtype::bf16);
    const guarded<float> q(c.rows, s.q_width(), s.q);
    guarded<float> out(c.rows, s.q_width()), probe(2 * c.shape.heads, c.active);
    backend.attend(q.view(), kv, what, out.view(), {probe.view().data, 2, probe.view().stride});
    CHECK(out.untouched());
    CHECK(probe.untouched());

    reference<double> oracle;
    const auto exact_kv = s.cache(oracle);
    attention_sample magnitudes = s;
    for (float& number : magnitudes.v) number = std::abs(number);
    const auto exact_magnitudes = magnitudes.cache(oracle);
    const guarded<double> exact_q(c.rows, s.q_width(), s.q);
    guarded<double> sums(c.rows, s.q_width()), terms(c.rows, s.q_width());
    guarded<float> probabilities(2 * c.shape.heads, c.active);
    oracle.attend(exact_q.view(), exact_kv, what, sums.view(), {probabilities.view().data, 2, probabilities.view().stride});
    oracle.attend(exact_q.view(), exact_magnitudes, what, terms.view(), {});
    double worst = 0, worst_probability = 0;
    for (std::size_t r = 0; r < c.rows; ++r)
      for (std::size_t i = 0; i < s.q_width(); ++i)
        worst = std::max(worst, std::abs(out(r, i) - sums(r, i)) / ((exact ? 1e-5 : 0x1p-8 + 1e-5) * terms(r, i)));
    for (std::size_t r = 0; r < 2 * c.shape.heads; ++r)
      for (std::size_t i = 0; i < c.active; ++i)
        worst_probability = std::max(worst_probability, static_cast<double>(std::abs(probe(r, i) - probabilities(r, i))));
    CHECK(worst <= 1);
    most = std::max(most, worst);
    CHECK(worst_probability <= 1e-5);
  }
  CHECK(most > 0.01);  // what is rounded is what is said to be
}

}  // namespace

TEST_CASE("on tensor cores: as the reference, but for attention weights in bf16") { check_against_reference(false); }

TEST_CASE("keys and values in bf16 under queries in float") { check_against_reference(true); }

TEST_CASE("a row among few, whose keys are split, and among many agrees") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    hosted_cuda backend({.kv = type, .exact = true});
    const attention_sample s({6, 2, 24}, 700, 40, attention_sample::layout::late_run, 2);
    const auto kv = s.cache(backend);
    const guarded<float> q(40, s.q_width(), s.q);
    guarded<float> many(40, s.q_width()), few(40, s.q_width());
    backend.attend(q.view(), kv, s.what(), many.view(), {});
    for (std::size_t r = 0; r < 40; r += 10) {
      attention_rows what = s.what();
      what.rows = what.rows.subspan(r, 10);
      backend.attend(q.view().slice(r, 10), kv, what, few.view().slice(r, 10), {});
    }
    double worst = 0;
    for (std::size_t r = 0; r < 40; ++r)
      for (std::size_t i = 0; i < s.q_width(); ++i) worst = std::max(worst, static_cast<double>(std::abs(many(r, i) - few(r, i))));
    CHECK(worst <= 2e-5);  // values and scores up to 5: some hundred roundings of 2^-24 each on either side
    CHECK(worst > 0);
  }
}

TEST_CASE("the same bits whatever order the threads take") {
  const attention_sample s({4, 2, 64}, 300, 40, attention_sample::layout::scattered, 3);
  const auto attended = [&](std::uint64_t seed, std::size_t rows) {
    shuffle_threads(seed);
    hosted_cuda backend({.kv = dtype::bf16});
    const auto kv = s.cache(backend);
    attention_rows what = s.what();
    what.rows = what.rows.last(rows);
    const guarded<float> q(rows, s.q_width(), std::span(s.q).last(rows * s.q_width()));
    guarded<float> out(rows, s.q_width());
    backend.attend(q.view(), kv, what, out.view(), {});
    return out;
  };
  for (const std::size_t rows : {3u, 40u}) CHECK(attended(1, rows) == attended(77, rows));
}

TEST_CASE("nothing is allocated once it was seen; heads that are too wide are refused") {
  hosted_cuda backend({.kv = dtype::bf16});
  const attention_sample s({4, 2, 64}, 300, 40, attention_sample::layout::run, 3);
  const auto kv = s.cache(backend);
  on_device<float> q(s.q), out(s.q.size());
  device::attention_layer layer(false);
  device::lists lists;
  std::vector<float> probe(4 * 300);
  const auto attend = [&](std::size_t rows) {
    attention_rows what = s.what();
    what.rows = what.rows.last(rows);
    layer.attend({q.data(), rows, s.q_width(), s.q_width()}, kv, what, {out.data(), rows, s.q_width(), s.q_width()}, {probe.data(), 1, 300},
                 lists);
  };
  attend(40), attend(3);
  device::synchronize();
  const allocation_watch allocations;
  const std::size_t bytes = layer.bytes();
  attend(40), attend(3), attend(20);
  device::synchronize();
  CHECK(!allocations.saw_any());
  CHECK(layer.bytes() == bytes);

  attention_rows wide = s.what();
  wide.shape.head_dim = 257;
  CHECK_THROWS_WITH_AS(layer.attend({q.data(), 40, 1028, 1028}, kv, wide, {out.data(), 40, 1028, 1028}, {}, lists),
                       "cuda: attention: expected heads of 256 numbers at most, found 257", error);
}
