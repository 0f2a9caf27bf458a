// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/product.hpp>

#include <doctest/doctest.h>

#include <lazyprune/backend/host.hpp>

#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("packed products of small integers are exact, for every remainder, and add") {
  for (const std::size_t rows : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 13u})
    for (std::size_t outputs = 1; outputs <= 100; ++outputs)
      for (const std::size_t depth : {1u, 2u, 3u, 4u, 5u, 8u, 17u, 64u}) {
        const auto number = [](std::size_t i) { return static_cast<float>(static_cast<int>(i * 2654435761u % 15) - 7); };
        guarded<float> x(rows, depth), w(outputs, depth), transposed(depth, outputs), out(rows, outputs), other(rows, outputs);
        for (std::size_t k = 0; k < depth; ++k) {
          for (std::size_t r = 0; r < rows; ++r) x.view().row(r)[k] = number(r * 31 + k);
          for (std::size_t n = 0; n < outputs; ++n) w.view().row(n)[k] = transposed.view().row(k)[n] = number(1000 + n * 37 + k);
        }
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t n = 0; n < outputs; ++n) out.view().row(r)[n] = other.view().row(r)[n] = number(r + n);
        // Memory of exactly the size that was promised to be enough.
        aligned_array<float> packed_x(rows * depth), packed_w(outputs * depth);
        simd::pack_rows(x.view(), packed_x.data());
        simd::pack_weights(w.view(), packed_w.data());
        simd::add_product(packed_x.data(), packed_w.data(), depth, out.view());
        simd::pack_weights_transposed(transposed.view(), packed_w.data());
        simd::add_product(packed_x.data(), packed_w.data(), depth, other.view());
        bool right = out.untouched();
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t n = 0; n < outputs; ++n) {
            float expected = number(r + n);
            for (std::size_t k = 0; k < depth; ++k) expected += x(r, k) * w(n, k);
            right = right && out(r, n) == expected;
          }
        REQUIRE(right);
        REQUIRE(out == other);
      }
}
