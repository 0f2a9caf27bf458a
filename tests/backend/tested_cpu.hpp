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

}  // namespace lazyprune_test
