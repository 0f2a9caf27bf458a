// SPDX-License-Identifier: MIT
// Tests the calls of cuBLASLt. The contract in cuda.test.cpp tests the results of the products.
#include <lazyprune/backend/cuda/products.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Returns an operand with these rows, for products with w.
device::operand packed(const std::vector<float>& x, std::size_t rows, const device::weight& w) {
  device::operand made(w.inputs());
  made.prepare(rows, w.type());
  write_rows(made, x);
  return made;
}

}  // namespace

TEST_CASE("rows are multiplied, with and without a bias, and stored or added to earlier numbers") {
  const std::size_t inputs = 5, outputs = 3;
  const std::vector<float> w{1, 2, 3, 4, 5, -1, 0, 1, 0, 1, 2, 2, 2, 2, 2};
  device::weight_upload upload;
  const device::weight weight(only(stored(w, outputs, inputs, dtype::f32)), dtype::f32, dtype::f32, upload);
  const device::operand x = packed({1, 1, 1, 1, 1, 1, 0, 0, 0, 2}, 2, weight);
  on_device<float> bias({10, 20, 30}), out({100, 100, 100, 100, 100, 100, 100});
  device::products products;
  for (int again = 0; again < 2; ++again)
    products.multiply(x, weight, {bias.data(), nullptr}, true, rows_view<float>{out.data(), 2, outputs, 4});
  CHECK(out.numbers() == std::vector<float>{150, 142, 180, 100, 142, 142, 172});
  products.multiply(x, weight, {}, false, rows_view<float>{out.data(), 2, outputs, 4});
  CHECK(out.numbers() == std::vector<float>{15, 1, 10, 100, 11, 1, 6});
  products.multiply(packed({}, 0, weight), weight, {}, false, rows_view<float>{out.data(), 0, outputs, 4});
  CHECK((products.bytes() == 0 || products.bytes() == std::size_t{32} << 20));  // depends on the algorithms that cuBLASLt chooses
}

TEST_CASE("an operand for a weight in bf16 is rounded to bf16") {
  device::weight_upload upload;
  const device::weight weight(only(stored({1.0f + 0x1p-9f, 1}, 1, 2, dtype::f32)), dtype::bf16, dtype::bf16, upload);
  on_device<float> out(1);
  device::products products;
  products.multiply(packed({1.0f + 0x1p-9f, 0x1p-20f}, 1, weight), weight, {}, false, rows_view<float>{out.data(), 1, 1, 1});
  CHECK(out.numbers()[0] == 1.0f + 0x1p-20f);
}

TEST_CASE("a product is right for any number of rows and any order of calls, whether cuBLASLt or multiply_rows computes it") {
  const std::size_t inputs = 24, outputs = 5, most = 40;
  std::vector<float> w(outputs * inputs), x(most * inputs);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11) - 5;
  device::weight_upload upload;
  const device::weight weight(only(stored(w, outputs, inputs, dtype::f32)), dtype::bf16, dtype::bf16, upload);
  on_device<float> out(most * outputs);
  device::products products;
  for (const std::size_t count : {40u, 3u, 37u, 1u, 17u, 4u, 5u, 36u, 2u}) {
    CAPTURE(count);
    products.multiply(packed({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count * inputs)}, count, weight), weight, {}, false,
                      rows_view<float>{out.data(), count, outputs, outputs});
    const std::vector<float> found = out.numbers();
    for (std::size_t i = 0; i < count * outputs; ++i) {
      float expected = 0;
      for (std::size_t k = 0; k < inputs; ++k) expected += x[i / outputs * inputs + k] * w[i % outputs * inputs + k];
      REQUIRE(found[i] == expected);
    }
  }
}

TEST_CASE("are_few is true for at most four rows, if the weight is in bf16 and the activations fit into shared memory") {
  device::weight_upload upload;
  const auto weight = [&](std::size_t inputs, dtype as) {
    return device::weight(only(stored(std::vector<float>(inputs), 1, inputs, dtype::f32)), as, as, upload);
  };
  const device::weight narrow = weight(4096, dtype::bf16), wide = weight(14336, dtype::bf16), exact = weight(8, dtype::f32);
  CHECK(device::products::are_few(1, narrow));
  CHECK(device::products::are_few(4, narrow));
  CHECK_FALSE(device::products::are_few(5, narrow));
  CHECK(device::products::are_few(2, wide));
  CHECK_FALSE(device::products::are_few(3, wide));
  CHECK_FALSE(device::products::are_few(1, exact));
}
