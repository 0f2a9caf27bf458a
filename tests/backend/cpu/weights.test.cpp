// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/weights.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights are kept as asked for, from any stored type, in padded rows") {
  const std::vector<float> numbers = normal_floats(5 * 33, 1);
  std::vector<std::uint16_t> half(6);  // f16: 1, -2, 0.5, 65504, 2^-24, 0
  const std::uint16_t bits[] = {0x3c00, 0xc000, 0x3800, 0x7bff, 0x0001, 0x0000};
  std::copy(std::begin(bits), std::end(bits), half.begin());
  const tensor f16{dtype::f16, 2, 3, reinterpret_cast<const std::byte*>(half.data())};

  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const stored part(numbers, 5, 33, type);
    const cpu_matrix f(only(part), dtype::f32, 2), b(only(part), dtype::bf16, 2);
    REQUIRE(f.stride() >= 33);
    REQUIRE(f.stride() * sizeof(std::uint16_t) % 64 == 0);
    const float* floats = std::get<aligned_array<float>>(f.values()).data();
    const std::uint16_t* halves = std::get<aligned_array<std::uint16_t>>(b.values()).data();
    for (std::size_t n = 0; n < 5; ++n)
      for (std::size_t i = 0; i < f.stride(); ++i) {
        const std::uint16_t rounded = i < 33 ? bf16_of_float(numbers[n * 33 + i]) : std::uint16_t{0};
        const float exact = i < 33 ? numbers[n * 33 + i] : 0.0f;
        REQUIRE(floats[n * f.stride() + i] == (type == dtype::f32 ? exact : float_of_bf16(rounded)));
        REQUIRE(halves[n * b.stride() + i] == rounded);
      }
  }
  const cpu_matrix f(std::span(&f16, 1), dtype::f32, 1), b(std::span(&f16, 1), dtype::bf16, 1);
  const float expected[] = {1, -2, 0.5f, 65504, 0x1p-24f, 0};
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(std::get<0>(f.values()).data()[i / 3 * f.stride() + i % 3] == expected[i]);
    CHECK(std::get<1>(b.values()).data()[i / 3 * b.stride() + i % 3] == bf16_of_float(expected[i]));
  }
}

TEST_CASE_TEMPLATE("a sum of a few rows is the same in every tile", Stored, float, std::uint16_t) {
  const std::size_t stride = 96, inputs = 90, outputs = 7;
  const auto numbers = normal_floats(outputs * stride, 1), x = normal_floats(16 * inputs, 2);
  aligned_array<Stored> w(outputs * stride);
  for (std::size_t i = 0; i < outputs * stride; ++i) {
    if constexpr (std::is_same_v<Stored, float>)
      w.data()[i] = i % stride < inputs ? numbers[i] : 0.0f;
    else
      w.data()[i] = i % stride < inputs ? bf16_of_float(numbers[i]) : std::uint16_t{0};
  }
  aligned_array<float> arranged(16 * stride);
  simd::arrange({x.data(), 16, inputs, inputs}, stride, w.data(), arranged.data());
  std::vector<float> widened(outputs * stride);
  simd::widen(w.data(), widened.size(), widened.data());
  for (std::size_t rows = 1; rows <= 16; ++rows)
    for (std::size_t count = 1; count <= outputs; ++count) {
      std::vector<float> sums(16 * outputs, 9.0f);
      simd::multiply_few(arranged.data(), rows, w.data(), count, stride, sums.data(), outputs);
      for (std::size_t r = 0; r < 16; ++r)
        for (std::size_t n = 0; n < outputs; ++n) {
          if (r >= rows || n >= count) {
            REQUIRE(sums[r * outputs + n] == 9.0f);
            continue;
          }
          float alone;
          simd::multiply_tile<1, 1>(arranged.data() + r * stride, w.data() + n * stride, stride, &alone, 1);
          REQUIRE(sums[r * outputs + n] == alone);
          double exact = 0, magnitude = 0;
          for (std::size_t i = 0; i < inputs; ++i) {
            const double term = static_cast<double>(x[r * inputs + i]) * widened[n * stride + i];
            exact += term, magnitude += std::abs(term);
          }
          REQUIRE(std::abs(alone - exact) <= 6 * std::sqrt(90.0) * 0x1p-24 * magnitude);  // a sum of 90 terms in float
        }
    }
}
