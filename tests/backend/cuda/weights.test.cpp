// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cuda/weights.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("a weight is stored in the type that it is rounded to, or in a wider type") {
  const auto numbers = normal_floats(5 * 11, 1);
  const std::vector<float> first(numbers.begin(), numbers.begin() + 22), second(numbers.begin() + 22, numbers.end());
  const stored a(first, 2, 11, dtype::f32), b(second, 3, 11, dtype::bf16);
  const std::vector<tensor> parts{a, b};
  device::weight_upload upload;
  for (const auto& [as, kept] :
       {std::pair{dtype::f32, dtype::f32}, std::pair{dtype::bf16, dtype::bf16}, std::pair{dtype::bf16, dtype::f32}}) {
    const device::weight w(parts, as, kept, upload);
    CHECK(w.outputs() == 5);
    CHECK(w.inputs() == 11);
    CHECK(w.pitch() == 16);
    CHECK(w.bytes() == 5 * 16 * size_of(kept));
    std::vector<std::byte> there(w.bytes());
    cudaMemcpyAsync(there.data(), w.data<std::byte>(), w.bytes(), cudaMemcpyDeviceToHost, device::stream());
    device::synchronize();
    std::vector<float> widened(5 * 16);
    widen(tensor{kept, 1, 5 * 16, there.data()}, 0, 5 * 16, widened.data());
    for (std::size_t i = 0; i < 5 * 16; ++i) {
      const float exact = i % 16 < 11 ? numbers[i / 16 * 11 + i % 16] : 0;
      CHECK(widened[i] == (as == dtype::bf16 || i >= 32 ? float_of_bf16(bf16_of_float(exact)) : exact));
    }
  }
}
