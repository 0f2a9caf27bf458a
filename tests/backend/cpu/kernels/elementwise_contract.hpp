// SPDX-License-Identifier: MIT
// The contract of every elementwise_kernel, for every length up to 69 and some greater lengths. If the kernel fuses multiply-adds, results
// have the bits of the definition. Otherwise they may differ by roundings.
#pragma once

#include <lazyprune/backend/cpu/kernels/elementwise_kernel.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <backend/samples.hpp>

namespace lazyprune_test {

inline std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all;
  for (std::size_t n = 1; n < 70; ++n) all.push_back(n);
  for (const std::size_t more : {127u, 128u, 129u, 511u, 512u, 513u, 4097u}) all.push_back(more);
  return all;
}

inline void check_elementwise(const lazyprune::kernels::elementwise_kernel& kernel, bool fuses) {
  const auto near = [&](float found, float expected, float size) {
    return fuses ? found == expected : std::abs(found - expected) <= 2 * 0x1p-24f * size;
  };
  for (const std::size_t n : lengths()) {
    CAPTURE(n);
    const auto x = normal_floats(n, 1), y = normal_floats(n, 2), c = normal_floats(n, 3), s = normal_floats(n, 4);
    constexpr float guard = 7.0f;
    const auto guarded_copy = [&](const std::vector<float>& of) {
      std::vector<float> copy = of;
      copy.push_back(guard);
      return copy;
    };

    std::vector<float> norm(n + 1, guard), same = guarded_copy(x);
    kernel.rms_norm(x.data(), y.data(), n, 1e-5, norm.data());
    kernel.rms_norm(same.data(), y.data(), n, 1e-5, same.data());
    CHECK(norm == same);
    CHECK(norm.back() == guard);
    float lanes[lazyprune::kernels::square_lanes] = {};
    for (std::size_t i = 0; i < n; ++i) {
      float& lane = lanes[i % lazyprune::kernels::square_lanes];
      lane = std::fma(x[i], x[i], lane);
    }
    const float scale = lazyprune::kernels::rms_scale(lanes, n, 1e-5);
    bool right = true;
    for (std::size_t i = 0; i < n; ++i) {
      const float expected = x[i] * scale * y[i];
      right = right && (fuses ? norm[i] == expected : std::abs(norm[i] - expected) <= 40 * 0x1p-24f * std::abs(expected));
    }
    CHECK(right);

    std::vector<float> a = guarded_copy(x), b = guarded_copy(y);
    kernel.rotate(a.data(), b.data(), c.data(), s.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const float xc = x[i] * c[i], yc = y[i] * c[i];
      right = right && near(a[i], std::fma(-y[i], s[i], xc), std::abs(y[i] * s[i]) + std::abs(xc)) &&
              near(b[i], std::fma(x[i], s[i], yc), std::abs(x[i] * s[i]) + std::abs(yc));
    }
    CHECK(right);
    CHECK(a.back() == guard);
    CHECK(b.back() == guard);

    std::vector<float> sum = guarded_copy(x);
    kernel.add(y.data(), n, sum.data());
    for (std::size_t i = 0; i < n; ++i) right = right && sum[i] == x[i] + y[i];
    CHECK(right);
    CHECK(sum.back() == guard);
  }
}

}  // namespace lazyprune_test
