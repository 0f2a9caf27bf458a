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

TEST_CASE("sums touch their rows only") {
  for (const std::size_t count : lengths) {
    CAPTURE(count);
    const auto a = normal_floats(count, 1), b = normal_floats(count, 2);
    std::vector<float> sum = a;
    sum.push_back(7.0f);
    simd::add(b.data(), count, sum.data());
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) right = right && sum[i] == a[i] + b[i];
    CHECK(right);
    CHECK(sum.back() == 7.0f);
  }
}
