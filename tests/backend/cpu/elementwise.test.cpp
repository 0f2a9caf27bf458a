// SPDX-License-Identifier: MIT
// The vector loops at every length around a batch, where the last one is part; their accuracy in use is in tensor_backend.test.cpp.
#include <lazyprune/backend/cpu/elementwise.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

const std::vector<std::size_t> lengths = [] {
  std::vector<std::size_t> all(70);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const std::size_t more : {127u, 128u, 129u, 511u, 512u, 513u, 4097u}) all.push_back(more);
  return all;
}();

}  // namespace

TEST_CASE("load and store: what is left, and the padding") {
  const std::vector<float> numbers = normal_floats(batch::size, 1);
  for (std::size_t left = 0; left <= batch::size; ++left) {
    std::vector<float> out(batch::size + 1, 9.0f), all(batch::size);
    const batch value = simd::load(numbers.data(), left, 5.0f);
    value.store_unaligned(all.data());
    simd::store(value, out.data(), left);
    for (std::size_t i = 0; i <= batch::size; ++i) {
      if (i < batch::size) CHECK(all[i] == (i < left ? numbers[i] : 5.0f));
      CHECK(out[i] == (i < left ? numbers[i] : 9.0f));
    }
  }
}

TEST_CASE("the largest of a row, wherever it stands, of any sign") {
  for (const std::size_t count : lengths)
    for (const float shift : {-1000.0f, 0.0f, 1000.0f}) {
      std::vector<float> x = normal_floats(count, static_cast<std::uint32_t>(count));
      for (float& value : x) value += shift;
      const float expected = x.empty() ? -std::numeric_limits<float>::infinity() : *std::ranges::max_element(x);
      CHECK(simd::largest(x.data(), count) == expected);
    }
}

TEST_CASE("exp and its sum") {
  for (const std::size_t count : lengths) {
    CAPTURE(count);
    std::vector<float> x = normal_floats(count, 3, 10), before = x;
    x.push_back(7.0f);
    const double sum = simd::exp_and_sum(x.data(), count, 20.0f);
    CHECK(x.back() == 7.0f);
    double expected = 0, worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double exact = std::exp(static_cast<double>(before[i] - 20.0f));
      expected += exact;
      worst = std::max(worst, std::abs(x[i] - exact) / exact);
    }
    CHECK(worst <= 4 * 0x1p-24);                                                // exp is good to 2 units in the last place
    CHECK(std::abs(sum - expected) <= (4 + 32) * 0x1p-24 * expected + 1e-300);  // at most 32 additions in float
  }
}

TEST_CASE("exp far below: 0, and never a NaN") {
  std::vector<float> x{-1e4f, -200.0f, -std::numeric_limits<float>::infinity(), 0.0f};
  CHECK(simd::exp_and_sum(x.data(), x.size(), 0.0f) == 1.0);
  CHECK(x == std::vector<float>{0, 0, 0, 1});
}

TEST_CASE("dot products: four rows give what each gives alone") {
  for (const std::size_t count : lengths) {
    CAPTURE(count);
    const auto rows = normal_floats(4 * count, 1), x = normal_floats(count, 2);
    const float* row[4] = {rows.data(), rows.data() + count, rows.data() + 2 * count, rows.data() + 3 * count};
    const auto four = simd::dots<4>({row[0], row[1], row[2], row[3]}, x.data(), count);
    for (std::size_t r = 0; r < 4; ++r) {
      CHECK(simd::dots<1>({row[r]}, x.data(), count)[0] == four[r]);
      double exact = 0, magnitude = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double term = static_cast<double>(row[r][i]) * x[i];
        exact += term, magnitude += std::abs(term);
      }
      CHECK(std::abs(four[r] - exact) <= 6 * std::sqrt(static_cast<double>(count)) * 0x1p-24 * magnitude);  // a sum in float
    }
  }
}

TEST_CASE("sums, scales and weights touch their rows only") {
  for (const std::size_t count : lengths) {
    CAPTURE(count);
    const auto a = normal_floats(count, 1), b = normal_floats(count, 2);
    std::vector<float> sum = a, scaled = a, weighed = a;
    for (auto* x : {&sum, &scaled, &weighed}) x->push_back(7.0f);
    simd::add(b.data(), count, sum.data());
    simd::scale(scaled.data(), count, 2.0f);
    const float weights[] = {0.5f, -2.0f};
    simd::add_weighed<2>(weights, {a.data(), b.data()}, count, weighed.data());
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) {
      right = right && sum[i] == a[i] + b[i] && scaled[i] == 2 * a[i];
      const double exact = 1.5 * static_cast<double>(a[i]) - 2.0 * static_cast<double>(b[i]);
      right = right && std::abs(weighed[i] - exact) <= 2 * 0x1p-24 * (1.5 * std::abs(a[i]) + 2 * std::abs(b[i]));  // two additions
    }
    CHECK(right);
    for (auto* x : {&sum, &scaled, &weighed}) CHECK(x->back() == 7.0f);
  }
}
