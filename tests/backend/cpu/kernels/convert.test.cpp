// SPDX-License-Identifier: MIT
// Tests lists of every length up to 39. avx2/convert.test.cpp compares the vector code with tensor.hpp's functions for every 16-bit number
// and for many floats.
#include <lazyprune/backend/cpu/kernels/convert.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("f32 and bf16 numbers become float, or bf16 rounded to nearest, and nothing else is written") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (std::size_t n = 0; n < 40; ++n) {
      CAPTURE(n);
      const auto numbers = normal_floats(n, 1);
      const stored from(numbers, 1, n, type);
      std::vector<float> wide(n + 1, 9.0f), expected(n + 1, 9.0f);
      std::vector<std::uint16_t> narrow(n + 1, 9);
      kernels::convert(type, tensor(from).data, n, wide.data());
      kernels::convert(type, tensor(from).data, n, narrow.data());
      widen(from, 0, n, expected.data());
      CHECK(wide == expected);
      for (std::size_t i = 0; i < n; ++i) CHECK(narrow[i] == bf16_of_float(expected[i]));
      CHECK(narrow[n] == 9);
    }
}

TEST_CASE("numbers of all sizes are rounded to f16") {
  const float least = 0x1p-24f, inf = std::numeric_limits<float>::infinity();
  std::vector<float> numbers{0.0f,     -0.0f,      least,    -least / 2, least * 1.5f, least * 2.5f, 0x1p-14f,
                             65504.0f, 65519.996f, 65520.0f, -1e30f,     inf,          -inf};
  for (float x = 1e-9f; x < 1e6f; x *= 1.01f) numbers.insert(numbers.end(), {x, -x});
  numbers.push_back(std::numeric_limits<float>::quiet_NaN());
  std::vector<std::uint16_t> narrow(numbers.size());
  kernels::round_to_f16(numbers.data(), numbers.size(), narrow.data());
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) CHECK(narrow[i] == f16_of_float(numbers[i]));
  CHECK(std::isnan(float_of_f16(narrow.back())));
}

TEST_CASE("numbers are rounded to f16, and nothing else is written") {
  for (std::size_t n = 0; n < 40; ++n) {
    const auto numbers = normal_floats(n, 1);
    std::vector<std::uint16_t> narrow(n + 1, 9);
    kernels::round_to_f16(numbers.data(), n, narrow.data());
    for (std::size_t i = 0; i < n; ++i) CHECK(narrow[i] == f16_of_float(numbers[i]));
    CHECK(narrow[n] == 9);
  }
}
