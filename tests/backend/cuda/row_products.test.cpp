// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/row_products.cuh>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <backend/samples.hpp>
#include <lazyprune/backend/cuda/launch.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

constexpr std::size_t gap = 3;  // numbers between rows of results

struct product_case {
  std::size_t rows, inputs, results;
  bool biased = false, adds = false;
};

float rounded(float x) { return float_of_bf16(bf16_of_float(x)); }

/// The numbers of a product: x (rows, inputs), w (parts * results, inputs) in bf16, bias (parts * results), earlier (rows, results).
template <unsigned Parts>
struct sample {
  explicit sample(const product_case& c)
      : x(normal_floats(c.rows * c.inputs, 1)),
        w(normal_floats(Parts * c.results * c.inputs, 2)),
        bias(normal_floats(Parts * c.results, 3)),
        earlier(normal_floats(c.rows * c.results, 4)) {
    for (float& number : w) number = rounded(number);
  }
  std::vector<float> x, w, bias, earlier;
};

template <unsigned Rows, unsigned Parts>
std::vector<float> computed(const product_case& c, const sample<Parts>& s) {
  const std::size_t pitch = (c.inputs + 7) / 8 * 8;
  std::vector<std::uint16_t> w(Parts * c.results * pitch);
  for (std::size_t i = 0; i < s.w.size(); ++i) w[i / c.inputs * pitch + i % c.inputs] = bf16_of_float(s.w[i]);
  std::vector<std::uint16_t> x(c.rows * pitch);
  for (std::size_t i = 0; i < s.x.size(); ++i) x[i / c.inputs * pitch + i % c.inputs] = bf16_of_float(s.x[i]);
  std::vector<float> out(c.rows * (c.results + gap), 77);
  for (std::size_t i = 0; i < s.earlier.size(); ++i) out[i / c.results * (c.results + gap) + i % c.results] = s.earlier[i];
  on_device<std::uint16_t> weight(w), rows(x);
  on_device<float> bias(s.bias), to(out);

  device::row_product p{};
  p.x = {rows.data(), pitch};
  p.weight = weight.data();
  p.bias = c.biased ? bias.data() : nullptr;
  p.out = {{to.data(), c.results + gap}, {}};
  p.rows = static_cast<unsigned>(c.rows);
  p.pitch = static_cast<unsigned>(pitch);
  p.results = static_cast<unsigned>(c.results);
  p.add = c.adds;
  p.activation = gate_activation::silu;
  using block = device::row_product_block;
  device::launch(device::multiply_rows<Rows, Parts>, {static_cast<unsigned>((c.results + block::warps - 1) / block::warps)},
                 {block::threads}, block::shared_bytes(Rows, pitch), device::stream(), p);

  const std::vector<float> all = to.numbers();
  std::vector<float> found;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i % (c.results + gap) < c.results)
      found.push_back(all[i]);
    else
      CHECK(all[i] == 77);
  return found;
}

/// Returns the largest difference between a result and its value in double, divided by 1 + |value|.
template <unsigned Rows, unsigned Parts>
double off_by(const product_case& c) {
  CAPTURE(Rows);
  CAPTURE(c.rows);
  CAPTURE(c.inputs);
  CAPTURE(c.results);
  const sample<Parts> s(c);
  const std::vector<float> found = computed<Rows>(c, s);
  REQUIRE(found.size() == c.rows * c.results);
  double most = 0;
  for (std::size_t r = 0; r < c.rows; ++r)
    for (std::size_t j = 0; j < c.results; ++j) {
      double sum[Parts];
      for (std::size_t part = 0; part < Parts; ++part) {
        const std::size_t output = part * c.results + j;
        sum[part] = c.biased ? static_cast<double>(s.bias[output]) : 0;
        for (std::size_t i = 0; i < c.inputs; ++i)
          sum[part] += static_cast<double>(rounded(s.x[r * c.inputs + i])) * static_cast<double>(s.w[output * c.inputs + i]);
      }
      double expected = sum[0];
      if constexpr (Parts == 2) expected = sum[0] / (1 + std::exp(-sum[0])) * sum[1];
      if (c.adds) expected += static_cast<double>(s.earlier[r * c.results + j]);
      most = std::max(most, std::abs(static_cast<double>(found[r * c.results + j]) - expected) / (1 + std::abs(expected)));
    }
  return most;
}

}  // namespace

TEST_CASE("a product of few rows is the sum of products of rounded activations and weights, plus the bias and the earlier output") {
  double most = 0;
  for (const std::size_t inputs : {1u, 5u, 8u, 250u, 256u, 1100u, 2120u})
    for (const std::size_t results : {1u, 8u, 19u})
      for (const bool more : {false, true}) {
        most = std::max(most, off_by<1, 1>({1, inputs, results, more, more}));
        most = std::max(most, off_by<2, 1>({2, inputs, results, !more, more}));
        most = std::max(most, off_by<4, 1>({3, inputs, results, more, !more}));
        most = std::max(most, off_by<4, 1>({4, inputs, results, more, more}));
      }
  CHECK(most < 2e-5);
  CHECK(most > 0);
}

TEST_CASE("a gated product of few rows is the activation of its first half times its second half") {
  double most = 0;
  for (const std::size_t inputs : {5u, 256u, 2120u})
    for (const bool biased : {false, true}) {
      most = std::max(most, off_by<1, 2>({1, inputs, 19, biased}));
      most = std::max(most, off_by<2, 2>({2, inputs, 3, biased}));
      most = std::max(most, off_by<4, 2>({3, inputs, 8, biased}));
    }
  CHECK(most < 1e-4);
}

TEST_CASE("a row of a product gets the same bits alone and together with other rows") {
  const product_case together{4, 1100, 19, true};
  const sample<1> s(together);
  const std::vector<float> all = computed<4>(together, s);
  for (std::size_t r = 0; r < 4; ++r) {
    sample<1> alone = s;
    alone.x.assign(s.x.begin() + static_cast<std::ptrdiff_t>(r * 1100), s.x.begin() + static_cast<std::ptrdiff_t>((r + 1) * 1100));
    alone.earlier.resize(19);
    const std::vector<float> one = computed<1>({1, 1100, 19, true}, alone);
    CHECK(one ==
          std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(r * 19), all.begin() + static_cast<std::ptrdiff_t>((r + 1) * 19)));
  }
}
