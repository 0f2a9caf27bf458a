// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/batch.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace lazyprune::kernels::portable;

TEST_CASE("four floats, whatever the translation unit is compiled for") { CHECK(batch::size == 4); }

TEST_CASE("load and store: what is left, and zeros") {
  const std::vector<float> numbers{1, 2, 3, 4};
  for (std::size_t left = 0; left <= batch::size; ++left) {
    std::vector<float> out(batch::size + 1, 9.0f), all(batch::size);
    const batch value = load_some(numbers.data(), left);
    value.store_unaligned(all.data());
    store_some(out.data(), left, value);
    for (std::size_t i = 0; i <= batch::size; ++i) {
      if (i < batch::size) CHECK(all[i] == (i < left ? numbers[i] : 0.0f));
      CHECK(out[i] == (i < left ? numbers[i] : 9.0f));
    }
  }
}
