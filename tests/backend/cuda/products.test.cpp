// SPDX-License-Identifier: MIT
// Tests the calls of cuBLASLt. The contract in cuda.test.cpp tests the results of the products.
#include <lazyprune/backend/cuda/products.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("rows inside other rows are multiplied, with a bias and added to earlier numbers") {
  const std::size_t inputs = 5, outputs = 3;
  const std::vector<float> w{1, 2, 3, 4, 5, -1, 0, 1, 0, 1, 2, 2, 2, 2, 2};
  device::weight_upload upload;
  const device::weight weight(only(stored(w, outputs, inputs, dtype::f32)), dtype::f32, dtype::f32, upload);
  on_device<float> x(std::vector<float>{9, 1, 1, 1, 1, 1, 9, 1, 0, 0, 0, 2, 9}), bias({10, 20, 30}),
      out({100, 100, 100, 100, 100, 100, 100});
  device::products products;
  for (int again = 0; again < 2; ++again)
    products.multiply({x.data() + 1, 2, inputs, 6}, weight, bias.data(), true, {out.data(), 2, outputs, 4});
  CHECK(out.numbers() == std::vector<float>{150, 142, 180, 100, 142, 142, 172});
  products.multiply({x.data() + 1, 2, inputs, 6}, weight, nullptr, false, {out.data(), 2, outputs, 4});
  CHECK(out.numbers() == std::vector<float>{15, 1, 10, 100, 11, 1, 6});
  products.multiply({x.data() + 1, 0, inputs, 6}, weight, nullptr, false, {out.data(), 0, outputs, 4});
  CHECK((products.bytes() == 0 || products.bytes() == std::size_t{32} << 20));  // depends on the algorithms that cuBLASLt chooses
}

TEST_CASE("a weight in bf16 rounds activations to bf16") {
  device::weight_upload upload;
  const device::weight weight(only(stored({1.0f + 0x1p-9f, 1}, 1, 2, dtype::f32)), dtype::bf16, dtype::bf16, upload);
  on_device<float> x(std::vector<float>{1.0f + 0x1p-9f, 0x1p-20f}), out(1);
  device::products products;
  products.multiply({x.data(), 1, 2, 2}, weight, nullptr, false, {out.data(), 1, 1, 1});
  CHECK(out.numbers()[0] == 1.0f + 0x1p-20f);
}
