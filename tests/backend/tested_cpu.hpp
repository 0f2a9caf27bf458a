// SPDX-License-Identifier: MIT
// The backend cpu on the path that the tests are about.
#pragma once

#include <lazyprune/backend/cpu.hpp>

#include <vector>

#include "../tested_path.hpp"

namespace lazyprune_test {

struct tested_cpu : lazyprune::cpu {
  explicit tested_cpu(const lazyprune::execution& e = {}) : cpu(tested_execution(e)) {}

  /// Whether products with weights, keys and values in bf16 round what they are multiplied by.
  bool rounds() const { return instructions() >= lazyprune::isa::avx512_bf16; }
};

/// Activations as the backend's products take them: rounded to bf16 where its instructions multiply nothing else.
template <class Backend>
std::vector<float> as_multiplied(const Backend& backend, std::vector<float> x, lazyprune::dtype weights) {
  if constexpr (requires { backend.rounds(); })
    if (weights == lazyprune::dtype::bf16 && backend.rounds())
      for (float& number : x) number = lazyprune::float_of_bf16(lazyprune::bf16_of_float(number));
  return x;
}

}  // namespace lazyprune_test
